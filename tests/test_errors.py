"""Errors: one tree, as its docstring draws it; sentences made of facts."""

import inspect
import re
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from streamlink import errors
from streamlink.errors import (
    AbortCode,
    AckTimeout,
    AddressInUse,
    AuthenticationFailed,
    Cancelled,
    ChecksumError,
    CommunicationTimeout,
    ConnectFailed,
    CorruptStore,
    ExchangeFailed,
    FlowControlError,
    FrameTooLarge,
    InvalidReference,
    JobAborted,
    LocalProtocolError,
    ModelError,
    MpiUnavailable,
    NonFiniteRound,
    NonFiniteUpdate,
    ObjectError,
    ObjectExpired,
    ObjectLimit,
    ObjectRefused,
    OpenTimeout,
    PeerBusy,
    ProtocolError,
    QuorumNotReached,
    ReadTimeout,
    RemoteProtocolError,
    RequestRefused,
    RoundError,
    SecurityError,
    ServerBusy,
    SourceChanged,
    SpecMismatch,
    StoreError,
    StoreFull,
    StreamAborted,
    StreamlinkError,
    StreamTimeout,
    TooFewDescriptors,
    TooManySideFiles,
    TopicNotServed,
    TornModel,
    TransportClosed,
    TransportError,
    UnknownCodec,
    UnknownObject,
    UnsupportedDtype,
    code_of,
    to_raise,
)

CLASSES = {
    name: value
    for name, value in vars(errors).items()
    if inspect.isclass(value) and issubclass(value, StreamlinkError)
}

TIMEOUTS = (StreamTimeout, OpenTimeout, AckTimeout, ReadTimeout)
PROTOCOL = (
    ProtocolError,
    LocalProtocolError,
    RemoteProtocolError,
    FlowControlError,
    ChecksumError,
    FrameTooLarge,
)
PLAIN = (
    StreamlinkError,
    TransportError,
    ConnectFailed,
    TransportClosed,
    AuthenticationFailed,
    AddressInUse,
    TooFewDescriptors,
    MpiUnavailable,
    ModelError,
    SpecMismatch,
    UnsupportedDtype,
    UnknownCodec,
    TornModel,
    TooManySideFiles,
    StoreError,
    StoreFull,
    SecurityError,
    ObjectError,
    UnknownObject,
    ObjectExpired,
    ObjectRefused,
    ObjectLimit,
    InvalidReference,
)
STALL: dict[str, Any] = {
    "who": "site-1",
    "stream": "model down",
    "seconds": 301.0,
    "bytes_done": 4096,
    "setting": "streaming_ack_wait",
}
FAILURES = {"site-2": ValueError("was late"), "site-1": ConnectFailed("is gone")}

NOT_FINITE = NonFiniteUpdate("site-1", "w1", 512, "reject")

# One error of each class; its sentence must hold each of its facts.
SAMPLES: list[tuple[StreamlinkError, Sequence[object]]] = [
    *((kind("wrong shape of w1"), ["wrong shape of w1"]) for kind in PLAIN),
    *((kind("chunk 7 twice", stream_id=3), ["chunk 7 twice", 3]) for kind in PROTOCOL),
    *((kind(**STALL), list(STALL.values())) for kind in TIMEOUTS),
    (CommunicationTimeout(stage="processing", **STALL), ["processing", *STALL.values()]),
    (Cancelled("enough of it"), ["enough of it"]),
    (
        StreamAborted(AbortCode.STALE_ATTEMPT, "round 2 is over", by_peer=True, who="site-1"),
        ["stale_attempt", "round 2 is over", "by site-1"],
    ),
    (
        ExchangeFailed(
            "site-1", "add", cause=ValueError("bad"), sent_bytes=8, sends_bytes=9, received_bytes=3
        ),
        ["'add' with site-1", "8 of 9 bytes sent", "3 received", "bad", "log"],
    ),
    *(
        (kind("it expired", who="the server", metadata={}), ["it expired", "the server"])
        for kind in (RequestRefused, ServerBusy, TopicNotServed)
    ),
    (PeerBusy("site-1", 64), ["site-1", "64 requests", "max_open_requests"]),
    (
        CorruptStore("digest differs", path="m/block-3", tensor="w1", inside=256, offset=512),
        ["digest differs", "m/block-3", "w1", "its byte 256", "logical byte 512"],
    ),
    (
        SourceChanged("it was written to", path="m.safetensors", tensor="w1", inside=512),
        ["it was written to", "m.safetensors", "w1", 512, "send it again"],
    ),
    (RoundError("round 3 failed", FAILURES), ["round 3 failed", "site-1: is gone", "was late"]),
    (NOT_FINITE, ["site-1", "w1", 512, "reject"]),
    (NonFiniteUpdate("site-1", "w1", 512, ""), ["site-1", "w1", 512, "accept_non_finite"]),
    (JobAborted("wrong data"), ["wrong data", "by the operator"]),
    (NonFiniteRound("site-1", NOT_FINITE), ["site-1", "w1"]),
    (QuorumNotReached("1 of 2", FAILURES), ["1 of 2", "site-1: is gone", "site-2: was late"]),
]


def drawn_tree() -> Iterator[tuple[str, str, set[str], set[str]]]:
    """Yield name, parent, further bases and facts of each error the docstring draws."""
    parents = ["Exception"]
    art = [line[4:] for line in (errors.__doc__ or "").splitlines() if line.startswith(" " * 4)]
    for line in art:
        branch = re.match(r"[ │]*[├└]─ ", line)
        depth = len(branch[0]) // 3 if branch else 0
        for item in line[branch.end() if branch else 0 :].split(" · "):
            name = re.match(r"\w+", item)
            assert name, f"no name in {line!r}"
            facts = re.search(r"\((.+)\)$", item)
            of_each = {f for f in re.split(r", | by ", facts[1]) if f != "peer"} if facts else set()
            yield name[0], parents[depth], set(re.findall(r"also an? (\w+)", item)), of_each
            parents[depth + 1 :] = [name[0]]


def test_the_drawn_tree_is_the_tree_of_classes() -> None:
    drawn = {name: ({parent} | bases) for name, parent, bases, _ in drawn_tree()}
    assert drawn == {name: {b.__name__ for b in kind.__bases__} for name, kind in CLASSES.items()}


def test_the_drawn_facts_are_attributes() -> None:
    samples = {type(error).__name__: error for error, _ in SAMPLES}
    for name, _, _, facts in drawn_tree():
        assert {fact for fact in facts if hasattr(samples[name], fact)} == facts, name


def test_every_error_is_exported() -> None:
    assert sorted([*CLASSES, "AbortCode"]) == sorted(errors.__all__)


def test_every_error_has_a_sample_below() -> None:
    assert {type(error).__name__ for error, _ in SAMPLES} == set(CLASSES)


@pytest.mark.parametrize(("error", "facts"), SAMPLES, ids=lambda v: type(v).__name__)
def test_a_sentence_contains_its_facts(error: StreamlinkError, facts: Sequence[object]) -> None:
    assert [fact for fact in facts if str(fact) not in str(error)] == []


@pytest.mark.parametrize(("error", "facts"), SAMPLES, ids=lambda v: type(v).__name__)
def test_an_operating_system_error_is_not_made_up(
    error: StreamlinkError, facts: Sequence[object]
) -> None:
    assert getattr(error, "errno", None) is None


def test_a_protocol_error_outside_a_stream_names_the_session() -> None:
    assert str(ProtocolError("said hello twice")) == "session: said hello twice"


def test_an_abort_of_ours_says_so() -> None:
    error = StreamAborted(AbortCode.CANCELLED, "asked to stop", by_peer=False, who="site-1")
    assert str(error) == "aborted by us (cancelled): asked to stop"


def test_an_abort_by_a_nameless_peer_says_so() -> None:
    error = StreamAborted(AbortCode.REFUSED, "full", by_peer=True)
    assert str(error) == "aborted by the peer (refused): full"


def test_a_timeout_tells_which_setting_to_raise() -> None:
    error = CommunicationTimeout(
        stage="sending", who="site-1", stream="update", seconds=300, bytes_done=0
    )
    assert str(error).endswith("raise communication_timeout")


def test_a_corrupt_store_without_a_place_names_the_file() -> None:
    assert str(CorruptStore("no index", path="model")) == "model: no index"


def test_a_round_without_failures_is_just_the_sentence() -> None:
    assert str(RoundError("no client came")) == "no client came"


def test_a_rounds_failures_are_kept_by_peer_and_belong_to_it() -> None:
    failures = {"site-1": ValueError("x")}
    error = RoundError("failed", failures)
    failures.clear()
    assert list(error.failures) == ["site-1"]


def test_what_the_standard_library_would_catch_is_caught() -> None:
    assert issubclass(StreamTimeout, TimeoutError)
    assert issubclass(TransportError, ConnectionError)
    assert issubclass(ModelError, ValueError)
    assert issubclass(StoreError, OSError)


def test_the_abort_codes_of_the_wire_stay_what_they_are() -> None:
    names = (
        "unspecified protocol_error flow_control checksum frame_too_large open_timeout "
        "ack_timeout read_timeout communication_timeout spec_mismatch store_failed stale_attempt "
        "unknown_stream refused version unauthenticated cancelled task_failed digest_mismatch "
        "session_lost source_changed"
    )
    assert [code.name.lower() for code in AbortCode][:21] == names.split()
    assert [code.value for code in AbortCode] == list(range(len(AbortCode)))


def test_every_timeout_travels_under_a_code_of_its_own() -> None:
    kinds = (OpenTimeout, AckTimeout, ReadTimeout, CommunicationTimeout)
    assert len({kind.code for kind in kinds}) == len(kinds)


def test_a_session_that_was_left_on_purpose_is_no_fault_of_anybody() -> None:
    theirs = StreamAborted(AbortCode.GOODBYE, "the job is done", by_peer=True, who="the server")
    assert str(theirs) == "the server left: the job is done"
    ours = StreamAborted(AbortCode.GOODBYE, "the client is closing", by_peer=False)
    assert str(ours) == "this side left: the client is closing"


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (KeyboardInterrupt(), AbortCode.CANCELLED),
        (ValueError("bad"), AbortCode.TASK_FAILED),
        (OSError("no space"), AbortCode.STORE_FAILED),
        (StoreError("no space"), AbortCode.STORE_FAILED),
        (TransportError("cut"), AbortCode.SESSION_LOST),
        (ModelError("another model"), AbortCode.SPEC_MISMATCH),
        (RoundError("no client came"), AbortCode.TASK_FAILED),
        (ProtocolError("a rule"), AbortCode.PROTOCOL_ERROR),
        (ProtocolError("taken", code=AbortCode.NAME_TAKEN), AbortCode.NAME_TAKEN),
        (StreamAborted(AbortCode.REFUSED, "full", by_peer=True), AbortCode.REFUSED),
    ],
)
def test_every_error_has_one_code_on_the_wire(error: BaseException, code: AbortCode) -> None:
    assert code_of(error) is code


def test_the_code_of_one_error_is_not_that_of_its_class() -> None:
    assert ProtocolError("taken", code=AbortCode.NAME_TAKEN).code is AbortCode.NAME_TAKEN
    assert ProtocolError.code is AbortCode.PROTOCOL_ERROR


@pytest.mark.parametrize(
    "error",
    [
        ProtocolError("a rule", stream_id=7, code=AbortCode.NAME_TAKEN),
        StreamAborted(AbortCode.REFUSED, "full", by_peer=True, who="the server"),
        CommunicationTimeout(stage="sending", who="a", stream="b", seconds=1.0, bytes_done=2),
        CorruptStore("bad", path="m", tensor="t", inside=1, offset=2),
        Cancelled("enough"),
    ],
)
def test_a_stored_error_is_raised_again_and_again_and_keeps_no_frame(
    error: StreamlinkError,
) -> None:
    error.__cause__ = ValueError("why")
    for _ in range(2):
        with pytest.raises(type(error)) as caught:
            raise to_raise(error)
        assert str(caught.value) == str(error)
        assert vars(caught.value) == vars(error)
        assert caught.value.__cause__ is error.__cause__
        assert len(caught.traceback) == 1
    assert error.__traceback__ is None
