"""Names in certificates, whole: what follows a zero byte belongs to the name."""

from __future__ import annotations

import ipaddress
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.name import _ASN1Type
from cryptography.x509.oid import NameOID

from streamlink.transport.grpc.credentials import x509_names
from streamlink.transport.x509_names import names_in

COMMON, UNIT = NameOID.COMMON_NAME, NameOID.ORGANIZATIONAL_UNIT_NAME
MANY = [x509.DNSName(f"host-{n}.example.test") for n in range(40)]  # lengths of two bytes


def a_certificate(subject: list[x509.NameAttribute[str]], *alternative: x509.GeneralName) -> bytes:
    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.now(UTC)
    issuer = x509.Name([x509.NameAttribute(COMMON, "the issuer")])
    made = (
        x509.CertificateBuilder(issuer, x509.Name(subject), key.public_key(), serial_number=300)
        .not_valid_before(now)
        .not_valid_after(now + timedelta(1))
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
    )
    if alternative:
        made = made.add_extension(x509.SubjectAlternativeName(alternative), critical=False)
    return made.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


def named(*names: str) -> list[x509.NameAttribute[str]]:
    return [x509.NameAttribute(COMMON, name) for name in names]


@pytest.mark.parametrize(
    ("pem", "expected"),
    [
        (a_certificate(named("site-1")), {"site-1"}),
        (a_certificate(named("Süd-1", "b")), {"Süd-1", "b"}),
        (a_certificate([]), set()),
        (a_certificate([x509.NameAttribute(UNIT, "site-1")]), set()),
        (a_certificate(named("site-1\0.other")), {"site-1\0.other"}),
        (a_certificate(named("a"), x509.DNSName("site-1\0.other")), {"a", "site-1\0.other"}),
        (a_certificate([x509.NameAttribute(COMMON, "site-1", _ASN1Type.BMPString)]), set()),
        (
            a_certificate(
                [],
                x509.UniformResourceIdentifier("spiffe://x/site-1"),
                x509.RFC822Name("a@b.test"),
                x509.IPAddress(ipaddress.ip_address("10.0.0.1")),
                x509.RegisteredID(COMMON),
            ),
            {"spiffe://x/site-1", "a@b.test", "10.0.0.1"},
        ),
        (a_certificate([], *MANY), {name.value for name in MANY}),
    ],
    ids=range(9),  # a fresh key makes fresh bytes: two workers would not collect the same names
)
def test_the_names_are_those_that_were_signed(pem: bytes, expected: set[str]) -> None:
    assert names_in(pem) == expected


WHOLE = a_certificate(named("site-1"))


@pytest.mark.parametrize(
    "pem",
    [b"", b"x", WHOLE[:-40], WHOLE.replace(b"MII", b"AAA"), b"\xff"],
    ids=range(5),
)
def test_what_is_no_certificate_is_refused(pem: bytes) -> None:
    with pytest.raises(ValueError, match="no certificate"):
        names_in(pem)


class Call:
    """A call over TLS, as gRPC tells of it."""

    def __init__(self, pem: bytes) -> None:
        self._found = {"transport_security_type": [b"ssl"], "x509_pem_cert": [pem]}

    def auth_context(self) -> dict[str, list[bytes]]:
        return {**self._found, "x509_common_name": [b"site-1"]}  # cut off at a zero byte


def test_nobody_acts_under_the_first_half_of_the_name_in_its_certificate() -> None:
    assert x509_names(Call(a_certificate(named("site-1")))) == frozenset({"site-1"})
    assert x509_names(Call(a_certificate(named("site-1\0.other")))) == frozenset({"site-1\0.other"})
    assert x509_names(Call(b"none")) == frozenset()
