"""The codecs of one stream: ``Encoder`` at the sender, ``Decoder`` at the receiver.

A chunk names its encoding by its place, from 1 on, among those that the two ends agreed on for the
stream; 0 is plain. So a name travels once, and a new encoding needs no number.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from streamlink.encodings.codec import Codec, Place
from streamlink.encodings.registry import known_encodings, new_codec, require_known
from streamlink.encodings.worth import Worth
from streamlink.errors import RemoteProtocolError
from streamlink.model.interfaces import Payload, payload_bytes
from streamlink.model.payloads import PayloadReader
from streamlink.model.spec import ModelSpec

__all__ = ["Decoder", "Encoder"]

_PLAIN = 0


class Encoder:
    """Encodes what one stream sends, with the first of its codecs that finds it worth it.

    Args:
        names: encodings to send in, the best first.
        spec: the model.
        packings: of the lossy formats that tensors of it may be rounded to; they come before
            ``names``, and wherever they fit: the user has asked for them.
        worth: decides which ranges are encoded in one of ``names``; None: all.
        codec_for: gives a codec by its name.

    Raises:
        UnknownCodec: one of ``names`` is no encoding.
    """

    base: Callable[[int, int], Payload] | None = None
    """Reads (offset, nbytes) of the version that both ends hold; to be set once they have agreed on
    it, before the first range is encoded. None: they hold none."""

    def __init__(
        self,
        names: Sequence[str],
        spec: ModelSpec,
        *,
        packings: Sequence[str] = (),
        worth: Worth | None = None,
        codec_for: Callable[[str], Codec] = new_codec,
    ) -> None:
        require_known(names)
        self.names = (*packings, *names)
        self._packings = frozenset(packings)
        self._worth = worth
        self._spec = spec
        # Made before the stream opens: to import a codec's module would stall it later.
        self._codecs = {name: codec_for(name) for name in self.names}

    def encode(self, offset: int, payload: Payload, agreed: Sequence[str]) -> tuple[int, Payload]:
        """Return how the bytes from ``offset`` on travel: the encoding's number, and the payload.

        Args:
            offset: of the first byte.
            payload: the plain bytes; their views must not change until they are received.
            agreed: the encodings that the receiver decodes, too, in the order that numbers them.
        """
        numbered = list(enumerate(agreed, start=1))
        if self._packings:
            packings = [each for each in numbered if each[1] in self._packings]
            found = self._encode(offset, payload, packings)
            if found[0] != _PLAIN:
                if self._worth is not None:
                    self._worth.passed(payload_bytes(found[1]))
                return found
            numbered = [each for each in numbered if each[1] not in self._packings]
        if self._worth is None:
            return self._encode(offset, payload, numbered)
        nbytes = payload_bytes(payload)
        has_base = self.base is not None
        part_bytes = self._worth.bytes_to_encode(nbytes, has_base=has_base) if numbered else 0
        if not part_bytes:
            return _PLAIN, payload
        is_sample = part_bytes < nbytes
        part = (PayloadReader(payload).take(part_bytes),) if is_sample else payload
        number, encoded = self._encode(offset, part, numbered)
        self._worth.note(nbytes=part_bytes, encoded_bytes=payload_bytes(encoded))
        return (_PLAIN, payload) if is_sample else (number, encoded)

    def _encode(
        self, offset: int, payload: Payload, numbered: Sequence[tuple[int, str]]
    ) -> tuple[int, Payload]:
        nbytes = payload_bytes(payload)
        place = Place(self._spec, offset, nbytes, self.base)
        for number, name in numbered:
            encoded = self._codecs[name].encode(payload, place)
            # The receiver refuses what is not shorter: a window bounds what travels, too.
            if encoded is not None and encoded.nbytes < nbytes:
                return number, (encoded,)
        return _PLAIN, payload


class Decoder:
    """Decodes what one stream receives.

    Args:
        peer_name: who sends, for errors.
        stream_id: the stream, for errors.
        codec_for: gives a codec by its name.
    """

    names = known_encodings()
    """What it can decode."""

    spec: ModelSpec | None = None
    """The model; to be set before its first chunk is here, which comes after its description."""

    base: Callable[[int, int], Payload] | None = None
    """Reads (offset, nbytes) of the version that both ends hold; to be set once they have agreed on
    it, before the first range is decoded. None: they hold none."""

    def __init__(
        self, *, peer_name: str, stream_id: int, codec_for: Callable[[str], Codec] = new_codec
    ) -> None:
        self._peer_name, self._stream_id, self._codec_for = peer_name, stream_id, codec_for
        self._codecs: dict[int, Codec] = {}

    def decode(
        self, number: int, offset: int, nbytes: int, payload: Payload, agreed: Sequence[str]
    ) -> Payload:
        """Return the plain bytes of a range.

        Args:
            number: of its encoding, among ``agreed``.
            offset: of its first byte.
            nbytes: its length, plain; the protocol has bounded it.
            payload: what came for it.
            agreed: the encodings of the stream, in the order that numbers them.

        Raises:
            RemoteProtocolError: it does not decode to ``nbytes`` bytes.
        """
        name = agreed[number - 1]
        if number not in self._codecs:
            self._codecs[number] = self._codec_for(name)
        assert self.spec is not None, "its chunks come after its description"
        place = Place(self.spec, offset, nbytes, self.base)
        try:
            plain = self._codecs[number].decode(payload, place)
        except RemoteProtocolError as error:
            raise self._fault(name, place, str(error)) from error
        if plain.nbytes != nbytes:  # whatever a codec promises: the digest would tell much later
            raise self._fault(name, place, f"it decodes to {plain.nbytes} bytes")
        return (plain,)

    def _fault(self, name: str, place: Place, why: str) -> RemoteProtocolError:
        end = place.offset + place.nbytes
        return RemoteProtocolError(
            f"{self._peer_name} sent bytes {place.offset} to {end} in encoding {name!r}, and they "
            f"do not decode: {why}",
            stream_id=self._stream_id,
        )
