"""What a model is: tensors in order, and the protocols of whatever holds their bytes.

A ``ModelSpec`` names the tensors. All of them laid end to end form one line of logical bytes; a
``ModelSource`` returns any range of it, a ``ModelSink`` takes ranges, and a ``ModelStore`` holds
one whole model and replaces it at once. These are protocols: any object with the methods will do.
A store that can do more implements one of the optional ones beside them, such as ``Preparing``.

Everything here is free of threads, files and network.
"""

from streamlink.extent import Extent
from streamlink.model.beside import Beside, HasBeside, KeepsBeside, SideLimits
from streamlink.model.computed import (
    Fill,
    GeneratedModel,
    MappedSource,
    RangeFunction,
    map_model,
)
from streamlink.model.interfaces import (
    Check,
    ChecksWriting,
    Expiring,
    HasIdentity,
    Lending,
    ModelInPlace,
    ModelSink,
    ModelSource,
    ModelStore,
    Payload,
    Preparing,
    Progress,
    Prompt,
    ResumableSink,
    ResumableStore,
    Watched,
)
from streamlink.model.rounding import RoundingError
from streamlink.model.spec import ModelSpec, Segment, TensorSpec

__all__ = [
    "Beside",
    "Check",
    "ChecksWriting",
    "Expiring",
    "Extent",
    "Fill",
    "GeneratedModel",
    "HasBeside",
    "HasIdentity",
    "KeepsBeside",
    "Lending",
    "MappedSource",
    "ModelInPlace",
    "ModelSink",
    "ModelSource",
    "ModelSpec",
    "ModelStore",
    "Payload",
    "Preparing",
    "Progress",
    "Prompt",
    "RangeFunction",
    "ResumableSink",
    "ResumableStore",
    "RoundingError",
    "Segment",
    "SideLimits",
    "TensorSpec",
    "Watched",
    "map_model",
]
