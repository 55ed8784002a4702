"""The names in an X.509 certificate, read out of its bytes.

gRPC gives them too, but each as text that ends with its first zero byte: a certificate of site-1,
a zero byte and more would pass for one of site-1. gRPC has verified it before it is read here.
"""

from __future__ import annotations

import ipaddress
import ssl
from collections.abc import Iterator

__all__ = ["names_in"]

_COMMON_NAME, _ALTERNATIVE_NAMES = b"\x55\x04\x03", b"\x55\x1d\x11"  # 2.5.4.3 and 2.5.29.17
_TEXTS = (0x0C, 0x13, 0x16)  # UTF-8, printable, ASCII
_NAMES, _ADDRESS = (0x81, 0x82, 0x86), 0x87  # mail, host and URI; an IP address
_VERSION, _EXTENSIONS = 0xA0, 0xA3
_SUBJECT = 4  # after number, algorithm, issuer, validity

Element = tuple[int, bytes]


def names_in(pem: bytes) -> frozenset[str]:
    """Return the common names and the alternative names of a certificate (PEM).

    Raises:
        ValueError: it is none.
    """
    try:
        (_, certificate), *_ = _elements(ssl.PEM_cert_to_DER_cert(pem.decode("ascii")))
        (_, signed), *_ = _elements(certificate)
        fields = [each for each in _elements(signed) if each[0] != _VERSION]
        found = [*_common(fields[_SUBJECT][1])]
        for tag, body in fields:
            found += _alternative(body) if tag == _EXTENSIONS else ()
        return frozenset(found)
    except (ValueError, IndexError) as error:
        raise ValueError("this is no certificate") from error


def _common(subject: bytes) -> Iterator[str]:
    for _, several in _elements(subject):
        for _, pair in _elements(several):
            (_, kind), (tag, value) = _elements(pair)
            if kind == _COMMON_NAME and tag in _TEXTS:
                yield value.decode("utf-8", errors="replace")


def _alternative(wrapped: bytes) -> Iterator[str]:
    ((_, extensions),) = _elements(wrapped)
    for _, extension in _elements(extensions):
        (_, kind), *_, (_, value) = _elements(extension)
        if kind != _ALTERNATIVE_NAMES:
            continue
        ((_, names),) = _elements(value)
        for tag, name in _elements(names):
            if tag in _NAMES:
                yield name.decode("utf-8", errors="replace")
            elif tag == _ADDRESS:
                yield str(ipaddress.ip_address(name))


def _elements(der: bytes) -> Iterator[Element]:
    """Yield the tag and body of each element; a length is one byte, or so many as it says."""
    at = 0
    while at < len(der):
        tag, nbytes, at = der[at], der[at + 1], at + 2
        if nbytes & 0x80:
            more = nbytes & 0x7F
            nbytes, at = int.from_bytes(der[at : at + more], "big"), at + more
        yield tag, der[at : at + nbytes]
        at += nbytes
