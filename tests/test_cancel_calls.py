"""Every public call that may wait has a test in which a token ends it, or a reason to have none."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from streamlink.cancel import CancelToken
from streamlink.link import ReceiveTransfer, SendTransfer
from tests.support.public_types import public_names, raised_by, types_of

TESTS = Path(__file__).parent
WAITING = {"seconds", "timeout", "cancel", "progress"}
"""Parameters of calls that may take long."""
STREAMS = {SendTransfer, ReceiveTransfer}

TOKEN = "test_cancel.py"
REQUESTS = "test_cancel_requests.py"

TESTED = {
    # one model
    "send": (TOKEN, "test_a_sender_in_the_middle_does_not_try_again_and_the_receiver_hears_why"),
    "receive": (TOKEN, "test_a_receiver_in_the_middle_keeps_what_it_can_and_its_sender_hears_why"),
    "serve": (TOKEN, "test_either_end_of_a_fetch_ends_in_the_middle_and_the_other_hears_why"),
    "fetch": (TOKEN, "test_either_end_of_a_fetch_ends_in_the_middle_and_the_other_hears_why"),
    "copy_model": (TOKEN, "test_a_copy_ends_between_two_pieces"),
    "digest_of": (TOKEN, "test_a_copy_ends_between_two_pieces"),
    # jobs
    "Client.start": (TOKEN, "test_a_client_ends_while_it_connects"),
    "Client.run": (TOKEN, "test_a_client_ends_while_it_waits_for_tasks"),
    "Client.close": (TOKEN, "test_a_client_that_closes_does_not_wait_for_a_server_that_is_mute"),
    "ScatterAndGather.run": (TOKEN, "test_a_job_that_waits_for_clients_ends"),
    "ScatterAndGather.run_round": (TOKEN, "test_each_step_of_a_job_ends"),
    "ScatterAndGather.wait_for_clients": (TOKEN, "test_each_step_of_a_job_ends"),
    "Fleet.run": (TOKEN, "test_a_fleet_ends_everybody"),
    "run_job": ("test_testing.py", "test_a_token_ends_the_wait_for_the_clients_and_the_job"),
    # servers and clients
    "Server.wait_for_peer": (TOKEN, "test_a_server_ends_while_it_waits_for_clients"),
    "Server.wait_for_peers": (TOKEN, "test_a_server_ends_while_it_waits_for_clients"),
    "Server.wait_until_left": (TOKEN, "test_a_server_ends_while_it_waits_until_a_client_has_left"),
    "Server.close": ("link/test_server.py", "test_a_token_ends_a_close_that_waits_for_who_is_away"),
    "ClientLink.start": (TOKEN, "test_a_client_ends_while_another_has_its_name"),
    "ClientLink.wait": (TOKEN, "test_a_link_ends_while_it_waits_for_its_end"),
    "ClientLink.wait_finished": (TOKEN, "test_a_link_ends_while_it_waits_for_its_end"),
    "ClientLink.close": (
        TOKEN,
        "test_a_client_that_closes_does_not_wait_for_a_server_that_is_mute",
    ),
    "ClientLink.ask": ("link/test_serving.py", "test_a_cancelled_request_ends_at_both_ends"),
    **dict.fromkeys(
        ("ProbeLine.start", "ProbeLine.echo", "ProbeLine.move", "measure"),
        ("link/test_probe_desk.py", "test_a_token_ends_each_call_of_a_probe"),
    ),
    "serve_probe": ("link/test_probe_server.py", "test_a_cancelled_token_ends_it"),
    "run_async": ("link/test_awaiting.py", "test_a_token_of_ones_own_ends_the_call"),
    # requests, and the models that go with them
    "Peer.ask": (
        "link/test_exchange_end.py",
        "test_the_servers_token_ends_exchanges_with_its_reason",
    ),
    "Exchange.result": (
        "link/test_exchange_end.py",
        "test_the_servers_token_ends_exchanges_with_its_reason",
    ),
    "Peer.request": (TOKEN, "test_each_wait_of_an_exchange_ends_and_the_client_hears_why"),
    "PeerRequest.wait_reply": (
        TOKEN,
        "test_each_wait_of_an_exchange_ends_and_the_client_hears_why",
    ),
    "send_model": (TOKEN, "test_each_wait_of_an_exchange_ends_and_the_client_hears_why"),
    "receive_model": (TOKEN, "test_each_wait_of_an_exchange_ends_and_the_client_hears_why"),
    **{
        f"Assignment.{name}": (
            REQUESTS,
            "test_a_clients_token_ends_its_work_and_the_server_hears_why",
        )
        for name in ("receive", "answer", "turn", "progress", "check")
    },
    "TurnLock.acquire": (REQUESTS, "test_a_clients_token_ends_its_work_and_the_server_hears_why"),
    "ClientRequest.receive": (REQUESTS, "test_a_servers_token_ends_its_handlers"),
    "ClientRequest.send": (REQUESTS, "test_a_servers_token_ends_its_handlers"),
    **{
        f"ClientRequest.{name}": (
            REQUESTS,
            "test_a_handler_that_reports_progress_ends_and_so_does_the_next_before_it_begins",
        )
        for name in ("progress", "check")
    },
    **{
        f"SendTransfer.{name}": (REQUESTS, "test_each_wait_of_a_stream_ends")
        for name in ("wait_room", "write", "pull", "recall")
    },
    "SendTransfer.finish": (REQUESTS, "test_a_sender_that_waits_for_the_commit_ends"),
    "SendTransfer.try_finish": (REQUESTS, "test_a_sender_that_waits_for_the_commit_ends"),
    **{
        f"ReceiveTransfer.{name}": (REQUESTS, "test_each_wait_of_a_stream_ends")
        for name in ("wait_announced", "open", "read", "read_chunk", "fill")
    },
    "ReceiveTransfer.recall": (REQUESTS, "test_a_receiver_that_reads_what_came_before_ends"),
    # objects
    "ObjectServer.put": (
        "objects/test_server.py",
        "test_the_servers_token_ends_a_put_that_reads_the_model",
    ),
    "ObjectServer.get": (
        "objects/test_server.py",
        "test_the_servers_token_ends_a_copy_which_is_no_read",
    ),
    "ObjectClient.start": ("objects/test_client.py", "test_a_token_ends_a_client_that_connects"),
    "ObjectClient.open": (
        "objects/test_client.py",
        "test_a_token_ends_an_open_that_waits_for_the_server",
    ),
    "ObjectClient.get": (
        "objects/test_client_resume.py",
        "test_a_get_goes_on_in_the_next_process_of_its_client",
    ),
    "ObjectClient.put": (
        "objects/test_client_resume.py",
        "test_a_put_of_files_goes_on_in_the_next_process_of_its_client",
    ),
    "OpenObject.read": ("objects/test_lazy.py", "test_a_token_ends_a_read_that_waits"),
}
"""Call: the file and the test in which a token ends it."""

AT_ONCE = "returns at once"
EXEMPT: dict[str, set[str]] = {
    AT_ONCE: {
        "Assignment.alive",
        "Assignment.call_off",
        "Assignment.close",
        "Assignment.decline",
        "Assignment.fail",
        "Assignment.reply",
        "ClientRequest.alive",
        "ClientRequest.call_off",
        "ClientRequest.close",
        "ClientRequest.fail",
        "ClientRequest.reply",
        "ClientRequest.report_waiting",
        "Answer.close",
        "Exchange.cancel",
        "Exchange.running",
        "LoopFuture.add_done_callback",
        "LoopFuture.remove_done_callback",
        "Peer.dismiss",
        "PeerRequest.close",
        "PeerRequest.end",
        "PeerRequest.is_good_for",
        "PeerRequest.reply_began",
        "PeerRequest.request_complete",
        "ReceiveTransfer.accept_at",
        "ReceiveTransfer.commit",
        "ReceiveTransfer.committing",
        "ReceiveTransfer.lending",
        "ReceiveTransfer.mark_durable",
        "ReceiveTransfer.on_news",
        "ReceiveTransfer.receipt",
        "ReceiveTransfer.release",
        "ReceiveTransfer.wait_for",
        "ScatterAndGather.abort",
        "ScatterAndGather.client_progress",
        "ScatterAndGather.drop",
        "ScatterAndGather.peak_bytes",
        "ScatterAndGather.readmit",
        "ScatterAndGather.state",
        "SendTransfer.when_held",
        "Server.bar",
        "Server.is_barred",
        "Server.listen",
        "Server.peers",
        "Server.readmit",
        "Server.serve",
        "ObjectServer.drop",
        "ObjectServer.forget",
        "ObjectServer.listen",
        "ObjectServer.open",
        "Transfer.abort",
        "Transfer.cancel",
        "Transfer.hand_to",
        "Transfer.hold",
        "Transfer.obey",
        "Transfer.pulse",
        "Transfer.when_waiting",
        "Transfer.withdraw",
    },
    "opens a stream, whose waits a token ends, and does not wait itself": {
        "Answer.receive",
        "Answer.send",
        "Assignment.incoming",
        "Assignment.outgoing",
    },
    "computes, or notes something, and waits for nobody": {
        "ProbeLine.initial_window",
        "RoundTrips.of",
        "SendTransfer.measured_by",
        "Server.occupied",
    },
    "says goodbye to a server, and waits for it for seconds at most": {"ProbeLine.close"},
    "tells its server something, and waits for the answer for seconds at most": {
        "ObjectClient.drop",
    },
    "is the token itself": {"CancelToken.check", "CancelToken.pause", "CancelToken.wait"},
    "is the time that waits are measured by; who waits has the token": {"Clock.join", "Clock.wait"},
    "waits for the `close` of a `Server` or a `ClientLink`, and otherwise for seconds at most": {
        "ObjectClient.close",
        "ObjectServer.close",
    },
    "returns what the exchange has raised, such as Cancelled, instead of raising it": {
        "Exchange.exception",
    },
    "is the thread of an exchange, which the exchange's token ends": {"Exchange.run"},
    "ends with its stream, which a token ends": {"Transfer.wait_over"},
    "waits for one read of the source, after which the source may be closed": {
        "SendTransfer.stop_pulling",
    },
    "is a commit or its preparation, which is not to be interrupted": {
        "ArrayModel.commit",
        "ArrayModel.prepare",
        "MemorySink.commit",
        "MemorySink.prepare",
        "ModelSink.commit",
        "Preparing.prepare",
        "TorchModel.commit",
        "TorchModel.prepare",
        "TwoStepSink.commit",
        "TwoStepSink.prepare",
    },
    "removes files that are older than `seconds`, and waits for nobody": {
        "CompressedStore.expire",
        "Expiring.expire",
        "SafetensorsStore.expire",
    },
}
"""Public calls that no token ends, and why."""

SAYS_NOTHING = {
    "Client.close", "ClientLink.close", "Server.close",  # a token shortens these, without an error
    "TurnLock.acquire",  # returns False
}  # fmt: skip


# --- the calls ------------------------------------------------------------------------------


def ours(each: object) -> bool:
    return inspect.isfunction(each) and each.__module__.startswith("streamlink.")


def mentioned_by(function: Callable[..., Any]) -> set[int]:
    return {id(kind) for _, kind in types_of(function)} if ours(function) else set()


def has_token(cls: type[Any]) -> bool:
    # A dataclass is made of facts; the source of its constructor is nowhere.
    init = inspect.getattr_static(cls, "__init__")
    return not dataclasses.is_dataclass(cls) and id(CancelToken) in mentioned_by(init)


def members(cls: type[Any]) -> Iterator[Callable[..., Any]]:
    """Yield the public functions of ``cls``, also what it inherits from another class of ours."""
    for name in dir(cls):
        found = inspect.getattr_static(cls, name)
        function = getattr(found, "__func__", found)  # of a classmethod
        if not name.startswith("_") and ours(function):
            yield function


def may_wait(function: Callable[..., Any]) -> bool:
    return (
        bool(WAITING & inspect.signature(function).parameters.keys())
        or bool(mentioned_by(function) & {id(each) for each in STREAMS})
        or "Cancelled" in raised_by(function)
    )


def found() -> dict[str, Callable[..., Any]]:
    calls: dict[str, Callable[..., Any]] = {}
    for each in public_names().values():
        if not isinstance(each, type):
            calls |= {each.__qualname__: each} if ours(each) and may_wait(each) else {}
            continue
        # Whatever has a token or is a stream may wait, however a method says so.
        is_meant = each in STREAMS or has_token(each)
        calls |= {f.__qualname__: f for f in members(each) if is_meant or may_wait(f)}
    return calls


CALLS = found()


def test_every_public_call_that_may_wait_has_a_test_or_a_reason() -> None:
    """A constructor waits for nobody: ``tests/test_construction.py``."""
    exempt = set().union(*EXEMPT.values())
    assert set(CALLS) == TESTED.keys() | exempt
    assert not TESTED.keys() & exempt
    assert sum(map(len, EXEMPT.values())) == len(exempt)


@pytest.mark.parametrize("call", TESTED)
def test_a_call_that_a_token_ends_says_so_and_has_its_test(call: str) -> None:
    assert ("Cancelled" in raised_by(CALLS[call])) is (call not in SAYS_NOTHING)
    file, test = TESTED[call]
    assert f"def {test}(" in (TESTS / file).read_text("utf-8")
