"""``Line``: one open stream of a lazy reader, which takes its chunks in order."""

from __future__ import annotations

from streamlink.cancel import CancelToken
from streamlink.errors import SpecMismatch
from streamlink.extent import Extent
from streamlink.link import Answer, Chunk
from streamlink.model.spec import ModelSpec
from streamlink.objects.reference import Reference

__all__ = ["Line"]


class Line:
    """A range of an object that arrives.

    Args:
        answer: the server's, which brings the range.
        extent: the range.
        reference: to the object.
        cancel: ends the wait for the description.

    Raises:
        SpecMismatch: the server sends another model than the reference states.
        StreamlinkError: the stream failed.
    """

    def __init__(
        self, answer: Answer, extent: Extent, reference: Reference, cancel: CancelToken
    ) -> None:
        self.position, self.stop = extent.start, extent.stop
        self._answer = answer
        try:
            self._transfer = answer.receive(extent=extent)
            with cancel.calling(self._transfer.cancel):
                self._open(reference)
                if extent.nbytes == 0:
                    self._finish()
        except BaseException:
            answer.close()
            raise

    @property
    def spec(self) -> ModelSpec:
        """The tensors of the object."""
        return self._transfer.spec

    def next(self, cancel: CancelToken) -> Chunk:
        """Return the next chunk; the last one only when the whole range is verified.

        Raises:
            StreamlinkError: the stream failed.
        """
        assert self.position < self.stop, "the whole range was read"
        with cancel.calling(self._transfer.cancel):
            while (chunk := self._transfer.read_chunk()) is None:
                pass  # the deadlines of the stream end this
            self._transfer.release(chunk.nbytes)
            self.position = chunk.end
            if self.position == self.stop:
                self._finish()
        return chunk

    def close(self) -> None:
        """Drop the stream; what is on its way is lost. Harmless when called twice."""
        self._answer.close("the reader goes on elsewhere")

    def _open(self, reference: Reference) -> None:
        while not self._transfer.open():
            pass
        if self._transfer.spec.digest.hex() != reference.spec_digest:
            raise SpecMismatch(f"the server sends another model than object {reference.id[:8]}")

    def _finish(self) -> None:
        while not self._transfer.is_complete:
            self._transfer.read_chunk()
        self._transfer.commit()
