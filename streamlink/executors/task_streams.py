"""What executors share: a task's two streams, and the call of the user's work on a whole model.

Whatever fails aborts both streams with its reason, so that the server does not have to wait for a
timeout.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from contextlib import nullcontext, suppress
from dataclasses import replace
from types import TracebackType
from typing import Self

from streamlink.encodings.rounder import RoundedSource, Rounder
from streamlink.errors import ModelError, StoreError, StreamlinkError, code_of
from streamlink.executors.executor import TaskResult
from streamlink.executors.update_rounding import UpdateRounding
from streamlink.filters import Filter, FilterContext, filtered, functions_of
from streamlink.link import Update
from streamlink.link.assignment import Assignment
from streamlink.link.receive_model import receive_model
from streamlink.link.receive_transfer import ReceiveTransfer
from streamlink.link.send_model import send_model
from streamlink.link.send_transfer import SendTransfer
from streamlink.link.transfer import Receipt
from streamlink.model.computed import RangeFunction
from streamlink.model.interfaces import ModelSink, ModelSource, watch
from streamlink.model.spec import ModelSpec
from streamlink.rounds.aggregate.clip import norm_of

__all__ = ["TaskStreams", "functions_up", "run_work", "with_norm"]


class TaskStreams:
    """The two streams of one task, model and update; closed at the end of the block."""

    def __init__(self, assignment: Assignment) -> None:
        self.incoming: ReceiveTransfer = assignment.incoming()
        self.outgoing: SendTransfer | None = None
        self._assignment = assignment
        self._rounding: UpdateRounding | None = None

    def receive(self, sink_for: Callable[[ModelSpec], ModelSink]) -> Receipt:
        """Receive the model into the sink that ``sink_for`` returns, and commit it.

        Raises:
            StreamlinkError: the stream or the sink failed.
        """
        return receive_model(self.incoming, lambda model: sink_for(model.spec))

    def answer(self, spec: ModelSpec, update: Update) -> SendTransfer:
        """Open the stream of the update.

        Args:
            spec: the tensors that the server wants back, in its order.
            update: its weight and kind.
        """
        self.outgoing = self._assignment.outgoing(spec, update)
        return self.outgoing

    def send(self, source: ModelSource, update: Update, metrics: Mapping[str, float]) -> Receipt:
        """Send the update and wait until the server has committed it.

        Raises:
            StreamlinkError: the stream failed, or the source could not be read.
        """
        receipt = send_model(self.answer(source.spec, update), source, metrics)
        self.keep_remainder()
        return receipt

    def as_sent(self, source: ModelSource, filter_up: Filter | None, update: Update) -> ModelSource:
        """Return the update of ``source`` as it leaves this site: filtered, then rounded.

        Raises:
            ModelError: a rule for lossy formats matches no tensor.
            StoreError: the remainder of the last update cannot be used.
        """
        seen = filtered(source, functions_up(filter_up, self._assignment, update))
        rounder = self.rounder(source.spec)
        return seen if rounder is None else RoundedSource(seen, rounder)

    def rounder(self, part: ModelSpec) -> Rounder | None:
        """Return what rounds an update of the tensors of ``part``; None: nothing is rounded.

        Raises:
            ModelError: a rule for lossy formats matches no tensor.
            StoreError: the remainder of the last update cannot be used.
        """
        if not self._assignment.config.stream.lossy_up:
            return None
        with self._assignment.alive():  # a remainder is verified before it is used
            self._rounding = UpdateRounding(self._assignment, self.incoming.spec, part)
        return self._rounding.rounder

    def keep_remainder(self) -> None:
        """Keep what rounding left of the update, which the server has committed."""
        if self._rounding is not None:
            self._rounding.commit()

    def close_remainder(self) -> None:
        """Close the files of the remainder; harmless when called twice.

        Before the next task begins its update: one at a time may use them.
        """
        if self._rounding is not None:
            self._rounding.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        # Aborted before they are closed: the server gets the reason, not only the end.
        if error is not None:
            self._fail(error)
        self.close_remainder()
        self._assignment.close(self.incoming, *([self.outgoing] if self.outgoing else []))

    def _fail(self, error: BaseException) -> None:
        code = code_of(error)
        is_ours = isinstance(error, StreamlinkError)
        reason = str(error) if is_ours else f"{type(error).__name__}: {error}"
        self.incoming.abort(code, reason)
        if self.outgoing is None and (not is_ours or isinstance(error, ModelError | StoreError)):
            # The link is not to blame: open the stream that the server waits for, to abort it.
            with suppress(StreamlinkError):  # the server may be gone by now
                self._assignment.check()
                self.answer(ModelSpec(()), Update())
        if self.outgoing is not None:
            self.outgoing.abort(code, reason)
            # The writer may still run the user's function, and tasks must not overlap.
            self.outgoing.stop_pulling()


def run_work(
    work: Callable[[], object], assignment: Assignment, *, reports_progress: bool
) -> TaskResult:
    """Call ``work``, which returns a ``TaskResult`` or nothing, and return its result.

    Args:
        work: the user's function.
        assignment: the task.
        reports_progress: the work calls ``task.progress`` itself. Otherwise this process reports
            progress for it, as long as it lives.

    Raises:
        ModelError: it returned something else.
        StreamAborted: the task was cancelled.
    """
    with nullcontext() if reports_progress else assignment.alive():
        result = work()
    # Work that cannot report progress learns only now that it was cancelled.
    assignment.check()
    if result is None:
        return TaskResult()
    if not isinstance(result, TaskResult):
        raise ModelError(
            f"the work returned a {type(result).__name__}; it must return a TaskResult, or nothing"
        )
    return result


def functions_up(
    filter_up: Filter | None, assignment: Assignment, update: Update
) -> list[RangeFunction]:
    """Return the functions of an executor's filter for one update; none without a filter."""
    facts = FilterContext(assignment.attempt, assignment.incoming().peer_name, update)
    return functions_of([] if filter_up is None else [filter_up], facts)


def with_norm(
    update: Update, source: ModelSource, base: ModelSource, assignment: Assignment
) -> Update:
    """Return ``update`` with the norm of what ``source`` changes, computed in a pass over it.

    Args:
        update: says whether it is values or differences.
        source: the update as it will be sent.
        base: the received model; of differences only its tensors are used.
        assignment: the task; while this runs, this process reports progress for it.

    Raises:
        StreamAborted: the task was cancelled.
        StoreError: the update or the base cannot be read.
        SourceChanged: the update has changed meanwhile.
    """
    # What is computed on a GPU is awaited with this, as it is before the update is sent.
    check = watch(source)
    with assignment.alive():
        norm = norm_of(source, base, update.kind, assignment.check)
    check()
    # One that has NaN is as long as can be: what the server does about it is not ours to decide.
    return replace(update, norm=math.inf if math.isnan(norm) else norm)
