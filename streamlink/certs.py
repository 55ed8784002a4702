"""A test certificate authority: its own certificate, a server's, and the sites'.

    FOLDER/ca/       ca.pem, key.pem               stays where it was made
    FOLDER/server/   ca.pem, certificate.pem, key.pem, tokens.yaml
    FOLDER/site-1/   ca.pem, certificate.pem, key.pem, token

Each of the other folders has all that one machine needs. By its extended key usage a server's
certificate is valid for a server only and a site's for a client only, so no site can impersonate
the server.
"""

from __future__ import annotations

import hashlib
import ipaddress
import os
import re
import secrets
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from streamlink.errors import SecurityError

__all__ = ["make_certificates"]

_AUTHORITY, _SERVER = "ca", "server"
# A site whose clock is slow would refuse a certificate that begins now.
_CLOCKS_DIFFER = timedelta(hours=1)
_SITE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")  # a folder's name, and at most X.509's 64
_HOST = re.compile(r"[A-Za-z0-9*]([A-Za-z0-9.-]{0,252}[A-Za-z0-9])?")

Files = Mapping[str, bytes]


def make_certificates(
    folder: Path, servers: Sequence[str], sites: Sequence[str], *, days: int = 30
) -> list[Path]:
    """Make a CA, one server's certificate, and a certificate and a token for each site.

    Existing folders are never overwritten. Keys and tokens are readable by their owner only.

    Args:
        folder: where the folders are created; created if it is missing.
        servers: names and IP addresses by which clients reach the server.
        sites: names of the clients.
        days: how long all certificates are valid.

    Returns:
        the folders: that of the CA, of the server, and of each site.

    Raises:
        SecurityError: a name cannot be used, or one of the folders exists already.
        OSError: they cannot be written.
    """
    _require_names(servers, sites)
    names = [_AUTHORITY, _SERVER, *sites]
    there = [name for name in names if (folder / name).exists()]
    if there:
        raise SecurityError(
            f"{folder / there[0]} is there, and nothing is overwritten; name another folder, or "
            "move this one away"
        )
    authority = _Authority(days)
    tokens = {site: secrets.token_urlsafe(32) for site in sites}
    contents: dict[str, Files] = {
        _AUTHORITY: authority.files(),
        _SERVER: {**authority.for_server(servers), "tokens.yaml": _hashed(tokens)},
        **{
            site: {**authority.for_site(site), "token": f"{token}\n".encode()}
            for site, token in tokens.items()
        },
    }
    folder.mkdir(parents=True, exist_ok=True)
    for name, files in contents.items():
        _write(folder, name, files)
    return [folder / name for name in names]


class _Authority:
    """A CA that signs with a new key; ``files`` returns the key, to be stored once."""

    def __init__(self, days: int) -> None:
        self._ends = datetime.now(UTC) + timedelta(days=days)
        # P-256: every TLS library accepts it, and its keys are made much faster than those of RSA.
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _named("streamlink try-out CA")
        self._certificate = (
            self._begun(self._name, self._key)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_usage(signs_certificates=True), critical=True)
            .sign(self._key, hashes.SHA256())
        )

    def files(self) -> Files:
        return {"ca.pem": _pem(self._certificate), "key.pem": _pem_key(self._key)}

    def for_server(self, hosts: Sequence[str]) -> Files:
        names = x509.SubjectAlternativeName([_alternative(host) for host in hosts])
        # X.509 allows 64 characters in a common name. It is for people only: clients compare the
        # alternative names.
        return self._issue(_named(hosts[0][:64]), ExtendedKeyUsageOID.SERVER_AUTH, names)

    def for_site(self, name: str) -> Files:
        return self._issue(_named(name), ExtendedKeyUsageOID.CLIENT_AUTH)

    def _issue(
        self,
        subject: x509.Name,
        purpose: x509.ObjectIdentifier,
        names: x509.SubjectAlternativeName | None = None,
    ) -> Files:
        key = ec.generate_private_key(ec.SECP256R1())
        unsigned = (
            self._begun(subject, key)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage(signs_certificates=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage([purpose]), critical=False)
        )
        if names is not None:
            unsigned = unsigned.add_extension(names, critical=False)
        signed = unsigned.sign(self._key, hashes.SHA256())
        return {
            "ca.pem": _pem(self._certificate),
            "certificate.pem": _pem(signed),
            "key.pem": _pem_key(key),
        }

    def _begun(
        self, subject: x509.Name, key: ec.EllipticCurvePrivateKey
    ) -> x509.CertificateBuilder:
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(datetime.now(UTC) - _CLOCKS_DIFFER)
            .not_valid_after(self._ends)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), False
            )
        )


def _require_names(servers: Sequence[str], sites: Sequence[str]) -> None:
    if not servers:
        raise SecurityError("name at least one host or IP address of the server (--server)")
    for host in servers:
        if not _is_address(host) and not _HOST.fullmatch(host):
            raise SecurityError(f"{host!r} is neither a host's name nor an IP address; no port")
        if _is_address(host) and ipaddress.ip_address(host).is_unspecified:
            raise SecurityError(
                f"{host} is where a server may listen, and no address that clients reach it by; "
                "name its host, or 127.0.0.1 for a try-out on this machine (--server)"
            )
    for site in sites:
        if not _SITE.fullmatch(site) or site in (_AUTHORITY, _SERVER):
            raise SecurityError(
                f"{site!r} cannot be a site's name here: use 1 to 64 letters, digits, '.', '_' and "
                f"'-', but not {_AUTHORITY!r} or {_SERVER!r}"
            )
    # Some file systems ignore case, and the two would share one folder.
    if len({site.lower() for site in sites}) < len(sites):
        raise SecurityError("two sites have the same name, but for upper and lower case")


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _alternative(host: str) -> x509.GeneralName:
    return x509.IPAddress(ipaddress.ip_address(host)) if _is_address(host) else x509.DNSName(host)


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _pem_key(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )


def _hashed(tokens: Mapping[str, str]) -> bytes:
    lines = (
        # A plain hash without salt suffices: a token has 256 random bits, and cannot be guessed as
        # a password can.
        f'"{site}": "{hashlib.sha256(token.encode()).hexdigest()}"\n'
        for site, token in tokens.items()
    )
    return "".join(["# SHA-256 of each site's token\n", *lines]).encode()


def _write(folder: Path, name: str, files: Files) -> None:
    """Write one folder: it appears whole or not at all."""
    partial = Path(tempfile.mkdtemp(prefix=f".{name}-", dir=folder))  # for its owner only
    try:
        for file, content in files.items():
            mode = 0o600 if file in ("key.pem", "token") else 0o644
            # The mode is given when the file is created: until a later ``chmod`` others could open
            # the key.
            number = os.open(partial / file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
            with open(number, "wb") as written:
                written.write(content)
        # A folder with files that has appeared meanwhile is not replaced: the rename fails.
        partial.rename(folder / name)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise
