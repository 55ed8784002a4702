"""``Reference``: the small text that a framework's message carries in the place of a model.

A reference names an object by a random number. It also states what the object is (size, digests,
expiry, who may read it), and the server that made it seals all of that: an HMAC-SHA256 under a key
that never leaves the server and ends with it. Nobody else can check the seal, and no receiver needs
to: whatever a reference states, the server compares the whole of it before it serves a byte.

There is no path and no address in it. A client asks only the server that it was configured with.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
import secrets
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Self

from streamlink.errors import InvalidReference, ObjectRefused, UnknownObject
from streamlink.objects.readers import Readers, checked_readers

__all__ = ["MAX_REFERENCE_CHARS", "Reference", "Sealer"]

MAX_REFERENCE_CHARS = 8000
"""The longest text of a reference (characters): it fits into one value of a request."""

_PREFIX = "slref1."  # the number is that of the layout
_TEXT = re.compile(r"slref1\.([A-Za-z0-9_-]+)")
_ID_BYTES, _START_BYTES, _DIGEST_BYTES, _SEAL_BYTES = 16, 8, 32, 32
# id, start of the server, digest, digest of the spec, bytes, expiry in milliseconds, readers
_HEAD = struct.Struct(f">{_ID_BYTES}s{_START_BYTES}s{_DIGEST_BYTES}s{_DIGEST_BYTES}sQQH")
_ANYBODY = 0xFFFF  # in the place of the number of readers
_UNKNOWN = bytes(_DIGEST_BYTES)  # in the place of a digest that is not known
_MAX_BYTES = (1 << 63) - 1
_MAX_MILLISECONDS = 1 << 48  # far beyond any clock, and exact as a float


@dataclass(frozen=True, slots=True)
class Reference:
    """What identifies one object at the server that made the reference; ``str()`` is its text.

    All of it is a claim until the server has checked the seal.
    """

    id: str
    """Names the object: random, 32 hexadecimal digits."""
    nbytes: int
    """Bytes of the model."""
    digest: str
    """The model's digest (see ``digest_of``), hexadecimal; empty: not known in advance."""
    spec_digest: str
    """The digest of the model's spec, hexadecimal."""
    expires_at: float
    """When it expires, by the server's clock (seconds since the epoch)."""
    readers: Readers
    """Names of the clients that may read it; empty: only the server itself; None: any client."""
    start: str = field(repr=False)
    """Names the start of the server that made it."""
    seal: bytes = field(repr=False)
    """The HMAC over all of the above."""

    def __str__(self) -> str:
        return _PREFIX + _encoded(self._body() + self.seal)

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the reference that ``text`` is; spaces and line ends around it do not count.

        Raises:
            InvalidReference: it is not a reference. Only one text stands for each reference,
                but for that.
        """
        if not isinstance(text, str):
            raise InvalidReference(f"a reference is a text, not a {type(text).__name__}")
        if len(text) > MAX_REFERENCE_CHARS:
            raise _invalid(f"it has {len(text)} characters; the most are {MAX_REFERENCE_CHARS}")
        match = _TEXT.fullmatch(text.strip())
        if match is None:
            raise _invalid(f"{text[:40]!r} does not begin with {_PREFIX} or has other characters")
        return cls._of(_decoded(match[1]))

    @classmethod
    def _of(cls, raw: bytes) -> Self:
        if len(raw) < _HEAD.size + _SEAL_BYTES:
            raise _invalid(f"{len(raw)} bytes are too few; it was cut off")
        number, start, digest, spec_digest, nbytes, expires, count = _HEAD.unpack_from(raw)
        if nbytes > _MAX_BYTES or expires > _MAX_MILLISECONDS:
            raise _invalid("its size or its expiry is out of range")
        names = raw[_HEAD.size : -_SEAL_BYTES]
        return cls(
            id=number.hex(),
            nbytes=nbytes,
            digest="" if digest == _UNKNOWN else digest.hex(),
            spec_digest=spec_digest.hex(),
            expires_at=expires / 1000,
            readers=_unpacked(names, count),
            start=start.hex(),
            seal=raw[-_SEAL_BYTES:],
        )

    def _body(self) -> bytes:
        head = _HEAD.pack(
            bytes.fromhex(self.id),
            bytes.fromhex(self.start),
            bytes.fromhex(self.digest) or _UNKNOWN,
            bytes.fromhex(self.spec_digest),
            self.nbytes,
            round(self.expires_at * 1000),
            _ANYBODY if self.readers is None else len(self.readers),
        )
        return head + _packed(self.readers or ())


class Sealer:
    """Makes and checks the references of one start of a server; the key ends with it.

    Args:
        key: of the HMAC; tests pass their own.
        start: names this start; tests pass their own.
    """

    def __init__(self, key: bytes | None = None, start: bytes | None = None) -> None:
        self._key = key or secrets.token_bytes(32)
        self._start = (start or secrets.token_bytes(_START_BYTES)).hex()

    def new_id(self) -> str:
        """Return a name for an object, at random."""
        return secrets.token_hex(_ID_BYTES)

    def seal(
        self,
        *,
        id: str,
        nbytes: int,
        digest: str,
        spec_digest: str,
        expires_at: float,
        readers: Readers,
    ) -> Reference:
        """Return a sealed reference to an object.

        Raises:
            ValueError: ``readers`` are no names, or too many.
        """
        bare = Reference(
            id=id,
            nbytes=nbytes,
            digest=digest,
            spec_digest=spec_digest,
            expires_at=round(expires_at * 1000) / 1000,  # as precise as the text
            readers=checked_readers(readers),
            start=self._start,
            seal=b"",
        )
        return Reference.parse(_PREFIX + _encoded(bare._body() + self._hmac(bare)))

    def check(self, reference: Reference) -> None:
        """Raise unless this server has made ``reference``, exactly as it is.

        Raises:
            UnknownObject: it is of an earlier start of the server, or of another server.
            ObjectRefused: it was changed or made up.
        """
        if reference.start != self._start:
            raise UnknownObject(
                f"object {reference.id[:8]}: the server was started again since this reference was "
                "made, or another server made it; references from before a start are invalid: put "
                "the object again"
            )
        # In constant time, so that nobody can find a seal byte by byte.
        if not hmac.compare_digest(self._hmac(reference), reference.seal):
            raise ObjectRefused(
                f"object {reference.id[:8]}: the reference is forged or damaged: its seal does not "
                "fit; pass the text on exactly as the server made it"
            )

    def _hmac(self, reference: Reference) -> bytes:
        return hmac.new(self._key, reference._body(), hashlib.sha256).digest()


def _packed(names: Sequence[str]) -> bytes:
    raws = [name.encode() for name in names]
    return b"".join(struct.pack(">H", len(raw)) + raw for raw in raws)


def _unpacked(raw: bytes, count: int) -> Readers:
    if count == _ANYBODY:
        if raw:
            raise _invalid("it names readers although anybody may read it")
        return None
    names, at = [], 0
    for _ in range(count):
        if at + 2 > len(raw):
            raise _invalid("its list of readers was cut off")
        (length,) = struct.unpack_from(">H", raw, at)
        at += 2 + length
        names.append(_name(raw[at - length : at], length))
    if at != len(raw):
        raise _invalid(f"{abs(len(raw) - at)} bytes follow its readers, or are missing")
    try:
        return checked_readers(names)
    except ValueError as error:
        raise _invalid(str(error)) from error


def _name(raw: bytes, length: int) -> str:
    if len(raw) != length:
        raise _invalid("the name of a reader was cut off")
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        raise _invalid("the name of a reader is no UTF-8") from error


def _encoded(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode("ascii")


def _decoded(text: str) -> bytes:
    try:
        raw = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except binascii.Error as error:
        raise _invalid("it is no base64, or was cut off") from error
    # Unused bits of the last character would give one reference several texts.
    if _encoded(raw) != text:
        raise _invalid("it is not written as a server writes it")
    return raw


def _invalid(why: str) -> InvalidReference:
    return InvalidReference(f"this text is no reference to an object: {why}")
