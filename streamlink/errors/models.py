"""Models that cannot be used as asked, and stores that cannot be read or written."""

from __future__ import annotations

from streamlink.errors.base import AbortCode, StreamlinkError

__all__ = [
    "CorruptStore",
    "ModelError",
    "NonFiniteUpdate",
    "SourceChanged",
    "SpecMismatch",
    "StoreError",
    "StoreFull",
    "TooManySideFiles",
    "TornModel",
    "UnknownCodec",
    "UnsupportedDtype",
]


class ModelError(StreamlinkError, ValueError):
    """A model, or a description of one, cannot be used as asked."""

    code = AbortCode.SPEC_MISMATCH


class SpecMismatch(ModelError):
    """Two models that should have the same tensors do not."""


class UnsupportedDtype(ModelError):
    """An array's element type cannot travel (object, structured, big-endian, ...)."""


class TooManySideFiles(ModelError):
    """More small files are beside a model than may go with it, or they are too large together."""


class UnknownCodec(ModelError):
    """There is no encoding of this name."""


class TornModel(ModelError):
    """The target of an unfinished transfer was used: part old model, part new."""


class SourceChanged(ModelError):
    """A model was changed while it was read, so its bytes are partly old and partly new.

    Attributes:
        path: the file, or ``""`` for memory.
        tensor: the one that changed, or ``""`` if only the file is known.
        inside: byte offset within the tensor, or -1.
    """

    code = AbortCode.SOURCE_CHANGED

    def __init__(self, what: str, *, path: str = "", tensor: str = "", inside: int = -1) -> None:
        self.path = path
        self.tensor = tensor
        self.inside = inside
        self.what = what
        super().__init__(what)

    def __str__(self) -> str:
        parts = [self.path] if self.path else []
        parts += [f"tensor {self.tensor!r}"] if self.tensor else []
        parts += [f"its byte {self.inside}"] if self.inside >= 0 else []
        at = f"{', '.join(parts)}: " if parts else ""
        return f"{at}{self.what}; nothing may write to a model that is being sent: send it again"


class NonFiniteUpdate(ModelError):
    """An update has NaN or infinity where the round's rules allow none.

    Attributes:
        peer_name: the client whose update it is.
        tensor: the first tensor with such an element.
        index: the element's flat position in it.
        setting: the value of ``non_finite`` that forbids it; empty: there is no such setting, but
            ``accept_non_finite``.
    """

    def __init__(self, peer_name: str, tensor: str, index: int, setting: str) -> None:
        self.peer_name = peer_name
        self.tensor = tensor
        self.index = index
        self.setting = setting
        super().__init__(
            f"element {index} of tensor {tensor!r} in the update of {peer_name} is NaN or infinite"
            + (
                f", and non_finite is {setting!r}"
                if setting
                else "; find out why it diverged, leave it out, or set accept_non_finite"
            )
        )


class StoreError(StreamlinkError, OSError):
    """A stored model cannot be read or written."""

    code = AbortCode.STORE_FAILED

    def __init__(self, what: str) -> None:
        self.what = what
        super().__init__(what)

    def __str__(self) -> str:
        return self.what


class CorruptStore(StoreError):
    """Stored bytes are not the bytes that were written.

    Attributes:
        path: the file.
        tensor: the damaged tensor, or ``""``.
        inside: byte offset within the tensor, or -1.
        offset: byte offset within the model, its tensors laid end to end, or -1.
    """

    def __init__(
        self, what: str, *, path: str, tensor: str = "", inside: int = -1, offset: int = -1
    ) -> None:
        self.path = path
        self.tensor = tensor
        self.inside = inside
        self.offset = offset
        super().__init__(what)

    def __str__(self) -> str:
        at = f", tensor {self.tensor!r}" if self.tensor else ""
        at += f", its byte {self.inside}" if self.inside >= 0 else ""
        at += f", logical byte {self.offset}" if self.offset >= 0 else ""
        return f"{self.path}{at}: {self.what}"


class StoreFull(StoreError):
    """The disk has too little free space."""
