from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class AbortCode(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ABORT_CODE_UNSPECIFIED: _ClassVar[AbortCode]
    ABORT_CODE_PROTOCOL_ERROR: _ClassVar[AbortCode]
    ABORT_CODE_FLOW_CONTROL: _ClassVar[AbortCode]
    ABORT_CODE_CHECKSUM: _ClassVar[AbortCode]
    ABORT_CODE_FRAME_TOO_LARGE: _ClassVar[AbortCode]
    ABORT_CODE_OPEN_TIMEOUT: _ClassVar[AbortCode]
    ABORT_CODE_ACK_TIMEOUT: _ClassVar[AbortCode]
    ABORT_CODE_READ_TIMEOUT: _ClassVar[AbortCode]
    ABORT_CODE_COMMUNICATION_TIMEOUT: _ClassVar[AbortCode]
    ABORT_CODE_SPEC_MISMATCH: _ClassVar[AbortCode]
    ABORT_CODE_STORE_FAILED: _ClassVar[AbortCode]
    ABORT_CODE_STALE_ATTEMPT: _ClassVar[AbortCode]
    ABORT_CODE_UNKNOWN_STREAM: _ClassVar[AbortCode]
    ABORT_CODE_REFUSED: _ClassVar[AbortCode]
    ABORT_CODE_VERSION: _ClassVar[AbortCode]
    ABORT_CODE_UNAUTHENTICATED: _ClassVar[AbortCode]
    ABORT_CODE_CANCELLED: _ClassVar[AbortCode]
    ABORT_CODE_TASK_FAILED: _ClassVar[AbortCode]
    ABORT_CODE_DIGEST_MISMATCH: _ClassVar[AbortCode]
    ABORT_CODE_SESSION_LOST: _ClassVar[AbortCode]
    ABORT_CODE_SOURCE_CHANGED: _ClassVar[AbortCode]
    ABORT_CODE_NAME_TAKEN: _ClassVar[AbortCode]
    ABORT_CODE_BY_OPERATOR: _ClassVar[AbortCode]
    ABORT_CODE_GOODBYE: _ClassVar[AbortCode]

class UpdateKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    UPDATE_KIND_VALUES: _ClassVar[UpdateKind]
    UPDATE_KIND_DIFFERENCES: _ClassVar[UpdateKind]
ABORT_CODE_UNSPECIFIED: AbortCode
ABORT_CODE_PROTOCOL_ERROR: AbortCode
ABORT_CODE_FLOW_CONTROL: AbortCode
ABORT_CODE_CHECKSUM: AbortCode
ABORT_CODE_FRAME_TOO_LARGE: AbortCode
ABORT_CODE_OPEN_TIMEOUT: AbortCode
ABORT_CODE_ACK_TIMEOUT: AbortCode
ABORT_CODE_READ_TIMEOUT: AbortCode
ABORT_CODE_COMMUNICATION_TIMEOUT: AbortCode
ABORT_CODE_SPEC_MISMATCH: AbortCode
ABORT_CODE_STORE_FAILED: AbortCode
ABORT_CODE_STALE_ATTEMPT: AbortCode
ABORT_CODE_UNKNOWN_STREAM: AbortCode
ABORT_CODE_REFUSED: AbortCode
ABORT_CODE_VERSION: AbortCode
ABORT_CODE_UNAUTHENTICATED: AbortCode
ABORT_CODE_CANCELLED: AbortCode
ABORT_CODE_TASK_FAILED: AbortCode
ABORT_CODE_DIGEST_MISMATCH: AbortCode
ABORT_CODE_SESSION_LOST: AbortCode
ABORT_CODE_SOURCE_CHANGED: AbortCode
ABORT_CODE_NAME_TAKEN: AbortCode
ABORT_CODE_BY_OPERATOR: AbortCode
ABORT_CODE_GOODBYE: AbortCode
UPDATE_KIND_VALUES: UpdateKind
UPDATE_KIND_DIFFERENCES: UpdateKind

class Said(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Attempt(_message.Message):
    __slots__ = ("job", "round", "attempt")
    JOB_FIELD_NUMBER: _ClassVar[int]
    ROUND_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    job: str
    round: int
    attempt: int
    def __init__(self, job: _Optional[str] = ..., round: _Optional[int] = ..., attempt: _Optional[int] = ...) -> None: ...

class Extent(_message.Message):
    __slots__ = ("start", "stop")
    START_FIELD_NUMBER: _ClassVar[int]
    STOP_FIELD_NUMBER: _ClassVar[int]
    start: int
    stop: int
    def __init__(self, start: _Optional[int] = ..., stop: _Optional[int] = ...) -> None: ...

class TransferFrame(_message.Message):
    __slots__ = ("chunk", "ack", "attach", "open", "accept", "spec_page", "repair", "held", "finish", "committing", "commit", "abort", "check")
    CHUNK_FIELD_NUMBER: _ClassVar[int]
    ACK_FIELD_NUMBER: _ClassVar[int]
    ATTACH_FIELD_NUMBER: _ClassVar[int]
    OPEN_FIELD_NUMBER: _ClassVar[int]
    ACCEPT_FIELD_NUMBER: _ClassVar[int]
    SPEC_PAGE_FIELD_NUMBER: _ClassVar[int]
    REPAIR_FIELD_NUMBER: _ClassVar[int]
    HELD_FIELD_NUMBER: _ClassVar[int]
    FINISH_FIELD_NUMBER: _ClassVar[int]
    COMMITTING_FIELD_NUMBER: _ClassVar[int]
    COMMIT_FIELD_NUMBER: _ClassVar[int]
    ABORT_FIELD_NUMBER: _ClassVar[int]
    CHECK_FIELD_NUMBER: _ClassVar[int]
    chunk: Chunk
    ack: Ack
    attach: Attach
    open: Open
    accept: Accept
    spec_page: SpecPage
    repair: Repair
    held: Held
    finish: Finish
    committing: Committing
    commit: Commit
    abort: Abort
    check: int
    def __init__(self, chunk: _Optional[_Union[Chunk, _Mapping]] = ..., ack: _Optional[_Union[Ack, _Mapping]] = ..., attach: _Optional[_Union[Attach, _Mapping]] = ..., open: _Optional[_Union[Open, _Mapping]] = ..., accept: _Optional[_Union[Accept, _Mapping]] = ..., spec_page: _Optional[_Union[SpecPage, _Mapping]] = ..., repair: _Optional[_Union[Repair, _Mapping]] = ..., held: _Optional[_Union[Held, _Mapping]] = ..., finish: _Optional[_Union[Finish, _Mapping]] = ..., committing: _Optional[_Union[Committing, _Mapping]] = ..., commit: _Optional[_Union[Commit, _Mapping]] = ..., abort: _Optional[_Union[Abort, _Mapping]] = ..., check: _Optional[int] = ...) -> None: ...

class Attach(_message.Message):
    __slots__ = ("session_id", "stream_id")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    STREAM_ID_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    stream_id: int
    def __init__(self, session_id: _Optional[str] = ..., stream_id: _Optional[int] = ...) -> None: ...

class Open(_message.Message):
    __slots__ = ("stream_id", "attempt", "total_bytes", "spec_digest", "spec_pages", "chunk_bytes", "weight", "is_resumed", "kind", "takes_next", "is_pure", "encodings", "extent", "norm", "bases", "is_kept")
    STREAM_ID_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    TOTAL_BYTES_FIELD_NUMBER: _ClassVar[int]
    SPEC_DIGEST_FIELD_NUMBER: _ClassVar[int]
    SPEC_PAGES_FIELD_NUMBER: _ClassVar[int]
    CHUNK_BYTES_FIELD_NUMBER: _ClassVar[int]
    WEIGHT_FIELD_NUMBER: _ClassVar[int]
    IS_RESUMED_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    TAKES_NEXT_FIELD_NUMBER: _ClassVar[int]
    IS_PURE_FIELD_NUMBER: _ClassVar[int]
    ENCODINGS_FIELD_NUMBER: _ClassVar[int]
    EXTENT_FIELD_NUMBER: _ClassVar[int]
    NORM_FIELD_NUMBER: _ClassVar[int]
    BASES_FIELD_NUMBER: _ClassVar[int]
    IS_KEPT_FIELD_NUMBER: _ClassVar[int]
    stream_id: int
    attempt: Attempt
    total_bytes: int
    spec_digest: bytes
    spec_pages: int
    chunk_bytes: int
    weight: float
    is_resumed: bool
    kind: UpdateKind
    takes_next: bool
    is_pure: bool
    encodings: _containers.RepeatedScalarFieldContainer[str]
    extent: Extent
    norm: float
    bases: _containers.RepeatedScalarFieldContainer[str]
    is_kept: bool
    def __init__(self, stream_id: _Optional[int] = ..., attempt: _Optional[_Union[Attempt, _Mapping]] = ..., total_bytes: _Optional[int] = ..., spec_digest: _Optional[bytes] = ..., spec_pages: _Optional[int] = ..., chunk_bytes: _Optional[int] = ..., weight: _Optional[float] = ..., is_resumed: bool = ..., kind: _Optional[_Union[UpdateKind, str]] = ..., takes_next: bool = ..., is_pure: bool = ..., encodings: _Optional[_Iterable[str]] = ..., extent: _Optional[_Union[Extent, _Mapping]] = ..., norm: _Optional[float] = ..., bases: _Optional[_Iterable[str]] = ..., is_kept: bool = ...) -> None: ...

class Accept(_message.Message):
    __slots__ = ("received", "limit", "chunk_bytes", "wants_spec", "ranges", "encodings", "base")
    RECEIVED_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    CHUNK_BYTES_FIELD_NUMBER: _ClassVar[int]
    WANTS_SPEC_FIELD_NUMBER: _ClassVar[int]
    RANGES_FIELD_NUMBER: _ClassVar[int]
    ENCODINGS_FIELD_NUMBER: _ClassVar[int]
    BASE_FIELD_NUMBER: _ClassVar[int]
    received: int
    limit: int
    chunk_bytes: int
    wants_spec: bool
    ranges: _containers.RepeatedScalarFieldContainer[int]
    encodings: _containers.RepeatedScalarFieldContainer[str]
    base: str
    def __init__(self, received: _Optional[int] = ..., limit: _Optional[int] = ..., chunk_bytes: _Optional[int] = ..., wants_spec: bool = ..., ranges: _Optional[_Iterable[int]] = ..., encodings: _Optional[_Iterable[str]] = ..., base: _Optional[str] = ...) -> None: ...

class SpecPage(_message.Message):
    __slots__ = ("number", "body")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    BODY_FIELD_NUMBER: _ClassVar[int]
    number: int
    body: bytes
    def __init__(self, number: _Optional[int] = ..., body: _Optional[bytes] = ...) -> None: ...

class SpecBody(_message.Message):
    __slots__ = ("tensors",)
    TENSORS_FIELD_NUMBER: _ClassVar[int]
    tensors: _containers.RepeatedCompositeFieldContainer[Tensor]
    def __init__(self, tensors: _Optional[_Iterable[_Union[Tensor, _Mapping]]] = ...) -> None: ...

class Tensor(_message.Message):
    __slots__ = ("name", "dtype", "shape")
    NAME_FIELD_NUMBER: _ClassVar[int]
    DTYPE_FIELD_NUMBER: _ClassVar[int]
    SHAPE_FIELD_NUMBER: _ClassVar[int]
    name: str
    dtype: str
    shape: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, name: _Optional[str] = ..., dtype: _Optional[str] = ..., shape: _Optional[_Iterable[int]] = ...) -> None: ...

class Chunk(_message.Message):
    __slots__ = ("sequence", "offset", "nbytes", "encoding", "hash", "pad", "payload")
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    NBYTES_FIELD_NUMBER: _ClassVar[int]
    ENCODING_FIELD_NUMBER: _ClassVar[int]
    HASH_FIELD_NUMBER: _ClassVar[int]
    PAD_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    sequence: int
    offset: int
    nbytes: int
    encoding: int
    hash: int
    pad: bytes
    payload: bytes
    def __init__(self, sequence: _Optional[int] = ..., offset: _Optional[int] = ..., nbytes: _Optional[int] = ..., encoding: _Optional[int] = ..., hash: _Optional[int] = ..., pad: _Optional[bytes] = ..., payload: _Optional[bytes] = ...) -> None: ...

class Ack(_message.Message):
    __slots__ = ("received", "consumed", "durable", "limit", "ranges")
    RECEIVED_FIELD_NUMBER: _ClassVar[int]
    CONSUMED_FIELD_NUMBER: _ClassVar[int]
    DURABLE_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    RANGES_FIELD_NUMBER: _ClassVar[int]
    received: int
    consumed: int
    durable: int
    limit: int
    ranges: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, received: _Optional[int] = ..., consumed: _Optional[int] = ..., durable: _Optional[int] = ..., limit: _Optional[int] = ..., ranges: _Optional[_Iterable[int]] = ...) -> None: ...

class Repair(_message.Message):
    __slots__ = ("sequence",)
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    sequence: int
    def __init__(self, sequence: _Optional[int] = ...) -> None: ...

class Held(_message.Message):
    __slots__ = ("counter", "reason", "waiting_for")
    COUNTER_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    WAITING_FOR_FIELD_NUMBER: _ClassVar[int]
    counter: int
    reason: str
    waiting_for: str
    def __init__(self, counter: _Optional[int] = ..., reason: _Optional[str] = ..., waiting_for: _Optional[str] = ...) -> None: ...

class Finish(_message.Message):
    __slots__ = ("stop", "digest", "metrics")
    class MetricsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: float
        def __init__(self, key: _Optional[str] = ..., value: _Optional[float] = ...) -> None: ...
    STOP_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    METRICS_FIELD_NUMBER: _ClassVar[int]
    stop: int
    digest: str
    metrics: _containers.ScalarMap[str, float]
    def __init__(self, stop: _Optional[int] = ..., digest: _Optional[str] = ..., metrics: _Optional[_Mapping[str, float]] = ...) -> None: ...

class Committing(_message.Message):
    __slots__ = ("counter",)
    COUNTER_FIELD_NUMBER: _ClassVar[int]
    counter: int
    def __init__(self, counter: _Optional[int] = ...) -> None: ...

class Commit(_message.Message):
    __slots__ = ("digest",)
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    digest: str
    def __init__(self, digest: _Optional[str] = ...) -> None: ...

class Abort(_message.Message):
    __slots__ = ("code", "reason")
    CODE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    code: AbortCode
    reason: str
    def __init__(self, code: _Optional[_Union[AbortCode, str]] = ..., reason: _Optional[str] = ...) -> None: ...

class SessionFrame(_message.Message):
    __slots__ = ("hello", "welcome", "heartbeat", "request", "progress", "reply", "goodbye", "abort", "cancel", "check")
    HELLO_FIELD_NUMBER: _ClassVar[int]
    WELCOME_FIELD_NUMBER: _ClassVar[int]
    HEARTBEAT_FIELD_NUMBER: _ClassVar[int]
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    REPLY_FIELD_NUMBER: _ClassVar[int]
    GOODBYE_FIELD_NUMBER: _ClassVar[int]
    ABORT_FIELD_NUMBER: _ClassVar[int]
    CANCEL_FIELD_NUMBER: _ClassVar[int]
    CHECK_FIELD_NUMBER: _ClassVar[int]
    hello: Hello
    welcome: Welcome
    heartbeat: Heartbeat
    request: Request
    progress: TaskProgress
    reply: Reply
    goodbye: Goodbye
    abort: Abort
    cancel: Cancel
    check: int
    def __init__(self, hello: _Optional[_Union[Hello, _Mapping]] = ..., welcome: _Optional[_Union[Welcome, _Mapping]] = ..., heartbeat: _Optional[_Union[Heartbeat, _Mapping]] = ..., request: _Optional[_Union[Request, _Mapping]] = ..., progress: _Optional[_Union[TaskProgress, _Mapping]] = ..., reply: _Optional[_Union[Reply, _Mapping]] = ..., goodbye: _Optional[_Union[Goodbye, _Mapping]] = ..., abort: _Optional[_Union[Abort, _Mapping]] = ..., cancel: _Optional[_Union[Cancel, _Mapping]] = ..., check: _Optional[int] = ...) -> None: ...

class Hello(_message.Message):
    __slots__ = ("version_min", "version_max", "name", "instance", "token", "chunk_bytes", "max_message_bytes", "session_timeout", "resume", "is_probe")
    VERSION_MIN_FIELD_NUMBER: _ClassVar[int]
    VERSION_MAX_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    CHUNK_BYTES_FIELD_NUMBER: _ClassVar[int]
    MAX_MESSAGE_BYTES_FIELD_NUMBER: _ClassVar[int]
    SESSION_TIMEOUT_FIELD_NUMBER: _ClassVar[int]
    RESUME_FIELD_NUMBER: _ClassVar[int]
    IS_PROBE_FIELD_NUMBER: _ClassVar[int]
    version_min: int
    version_max: int
    name: str
    instance: str
    token: str
    chunk_bytes: int
    max_message_bytes: int
    session_timeout: float
    resume: str
    is_probe: bool
    def __init__(self, version_min: _Optional[int] = ..., version_max: _Optional[int] = ..., name: _Optional[str] = ..., instance: _Optional[str] = ..., token: _Optional[str] = ..., chunk_bytes: _Optional[int] = ..., max_message_bytes: _Optional[int] = ..., session_timeout: _Optional[float] = ..., resume: _Optional[str] = ..., is_probe: bool = ...) -> None: ...

class Welcome(_message.Message):
    __slots__ = ("version", "session_id", "epoch", "chunk_bytes", "heartbeat_interval", "data_ports", "max_open_requests", "data_key")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    CHUNK_BYTES_FIELD_NUMBER: _ClassVar[int]
    HEARTBEAT_INTERVAL_FIELD_NUMBER: _ClassVar[int]
    DATA_PORTS_FIELD_NUMBER: _ClassVar[int]
    MAX_OPEN_REQUESTS_FIELD_NUMBER: _ClassVar[int]
    DATA_KEY_FIELD_NUMBER: _ClassVar[int]
    version: int
    session_id: str
    epoch: str
    chunk_bytes: int
    heartbeat_interval: float
    data_ports: _containers.RepeatedCompositeFieldContainer[DataPort]
    max_open_requests: int
    data_key: bytes
    def __init__(self, version: _Optional[int] = ..., session_id: _Optional[str] = ..., epoch: _Optional[str] = ..., chunk_bytes: _Optional[int] = ..., heartbeat_interval: _Optional[float] = ..., data_ports: _Optional[_Iterable[_Union[DataPort, _Mapping]]] = ..., max_open_requests: _Optional[int] = ..., data_key: _Optional[bytes] = ...) -> None: ...

class DataPort(_message.Message):
    __slots__ = ("carrier", "port", "above", "lanes")
    CARRIER_FIELD_NUMBER: _ClassVar[int]
    PORT_FIELD_NUMBER: _ClassVar[int]
    ABOVE_FIELD_NUMBER: _ClassVar[int]
    LANES_FIELD_NUMBER: _ClassVar[int]
    carrier: str
    port: int
    above: int
    lanes: int
    def __init__(self, carrier: _Optional[str] = ..., port: _Optional[int] = ..., above: _Optional[int] = ..., lanes: _Optional[int] = ...) -> None: ...

class Heartbeat(_message.Message):
    __slots__ = ("counter",)
    COUNTER_FIELD_NUMBER: _ClassVar[int]
    counter: int
    def __init__(self, counter: _Optional[int] = ...) -> None: ...

class Request(_message.Message):
    __slots__ = ("request_id", "topic", "attempt", "sends", "returns", "metadata", "part", "sends_extent", "returns_extent")
    class MetadataEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    SENDS_FIELD_NUMBER: _ClassVar[int]
    RETURNS_FIELD_NUMBER: _ClassVar[int]
    METADATA_FIELD_NUMBER: _ClassVar[int]
    PART_FIELD_NUMBER: _ClassVar[int]
    SENDS_EXTENT_FIELD_NUMBER: _ClassVar[int]
    RETURNS_EXTENT_FIELD_NUMBER: _ClassVar[int]
    request_id: int
    topic: str
    attempt: Attempt
    sends: int
    returns: int
    metadata: _containers.ScalarMap[str, str]
    part: _containers.RepeatedScalarFieldContainer[str]
    sends_extent: Extent
    returns_extent: Extent
    def __init__(self, request_id: _Optional[int] = ..., topic: _Optional[str] = ..., attempt: _Optional[_Union[Attempt, _Mapping]] = ..., sends: _Optional[int] = ..., returns: _Optional[int] = ..., metadata: _Optional[_Mapping[str, str]] = ..., part: _Optional[_Iterable[str]] = ..., sends_extent: _Optional[_Union[Extent, _Mapping]] = ..., returns_extent: _Optional[_Union[Extent, _Mapping]] = ...) -> None: ...

class Cancel(_message.Message):
    __slots__ = ("request_id", "reason")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    request_id: int
    reason: str
    def __init__(self, request_id: _Optional[int] = ..., reason: _Optional[str] = ...) -> None: ...

class TaskProgress(_message.Message):
    __slots__ = ("request_id", "counter")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    COUNTER_FIELD_NUMBER: _ClassVar[int]
    request_id: int
    counter: int
    def __init__(self, request_id: _Optional[int] = ..., counter: _Optional[int] = ...) -> None: ...

class Reply(_message.Message):
    __slots__ = ("request_id", "error", "traceback", "metadata")
    class MetadataEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    TRACEBACK_FIELD_NUMBER: _ClassVar[int]
    METADATA_FIELD_NUMBER: _ClassVar[int]
    request_id: int
    error: str
    traceback: str
    metadata: _containers.ScalarMap[str, str]
    def __init__(self, request_id: _Optional[int] = ..., error: _Optional[str] = ..., traceback: _Optional[str] = ..., metadata: _Optional[_Mapping[str, str]] = ...) -> None: ...

class Goodbye(_message.Message):
    __slots__ = ("reason",)
    REASON_FIELD_NUMBER: _ClassVar[int]
    reason: str
    def __init__(self, reason: _Optional[str] = ...) -> None: ...
