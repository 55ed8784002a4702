"""``Client``: runs each task of the server with its executor, until the server says goodbye."""

from __future__ import annotations

import logging
from typing import Self

from streamlink.cancel import CancelToken
from streamlink.clock import Clock, running_time
from streamlink.closing import Closing
from streamlink.config import LinkConfig
from streamlink.errors import StreamlinkError, to_raise
from streamlink.executors.executor import Executor, TaskOutcome, serve
from streamlink.link import Traffic
from streamlink.link.assignment import Assignment, TurnLock
from streamlink.link.client import ClientLink
from streamlink.link.joining import is_goodbye
from streamlink.link.transfer_facts import OnTransfer
from streamlink.stores.preflight import require_writable

__all__ = ["Client"]

NOTHING_FED_BACK = "what lossy formats lose of an update cannot be kept (stream.error_feedback)"

logger = logging.getLogger("streamlink.client")

KEPT_OUTCOMES = 256
"""Outcomes that a client keeps (count): it may run for months."""


class Client(Closing):
    """One site of a job: ``run`` connects to the server and does its tasks.

    Use it in a ``with`` block, which connects at its beginning and leaves the server at its end.

    Args:
        address: the server's ``host:port``.
        name: this client's name, unique at its server.
        executor: runs the tasks.
        config: settings of this end; chunk size and limits are negotiated with the server.
        cancel: ends ``start``, ``run`` and ``close``; that ends a running task.
        on_transfer: called with the facts of each finished transfer; see ``TransferFacts``.
        clock: gives the time of all deadlines and waits; tests give a virtual one.

    Raises:
        TypeError: ``executor`` is not an executor, but a function, say; names the one to use.
        StoreError: the directory ``stream.error_feedback`` cannot be made or written to.
    """

    def __init__(
        self,
        address: str,
        name: str,
        executor: Executor,
        config: LinkConfig | None = None,
        *,
        cancel: CancelToken | None = None,
        on_transfer: OnTransfer | None = None,
        clock: Clock = running_time,
    ) -> None:
        _require_executor(executor)
        if config is not None and config.stream.error_feedback is not None:
            require_writable(config.stream.error_feedback, NOTHING_FED_BACK)
        self.name = name
        self.outcomes: list[TaskOutcome] = []
        """The outcomes of the last 256 tasks."""
        self.tasks_done = 0
        self._executor = executor
        # One task at a time, unless the executor declares that they may overlap: most hold one
        # model.
        self._busy = TurnLock()
        self._link = ClientLink(
            address,
            name=name,
            serve=self._serve,
            config=config,
            cancel=cancel,
            cancels_work=False,
            on_transfer=on_transfer,
            clock=clock,
        )

    def start(self) -> Self:
        """Connect, and return this client once the server has let it in.

        ``run`` and a ``with`` block do it by themselves. Harmless once it has connected. Tasks may
        begin at once. It may be called again after one of the errors of streamlink.

        Raises:
            ConnectFailed: nobody answers at the address within ``connect_timeout``.
            StreamAborted: the server refused us; its reason says why.
            AuthenticationFailed: one end does not accept the other's certificate, token or name.
            SecurityError: plain text would leave this machine unasked, or a certificate is no good.
            Cancelled: the token was.
            RuntimeError: this client was closed.
        """
        self._link.start()
        return self

    def run(self) -> list[TaskOutcome]:
        """Do tasks until the server has no more; return what was done (see ``outcomes``).

        It connects first unless ``start`` has, and raises what ``start`` raises. A server that was
        killed and started again is joined again; see ``rejoin_timeout``.

        Raises:
            StreamAborted: the server failed, or was lost for longer than ``rejoin_timeout``.
            StreamTimeout: the same, where its connection was lost before that.
            Cancelled: the token was cancelled; closing this client cancels a running task.
        """
        if not self._link.is_started:
            self.start()
        self._link.wait_finished()
        error = self._link.error
        # The only end that is no failure: the server itself has said that it is done.
        if is_goodbye(error):
            logger.info("%s", error)
            return self.outcomes
        if error is not None:
            raise to_raise(error)
        return self.outcomes

    @property
    def traffic(self) -> Traffic:
        """Bytes that all its streams have moved."""
        return self._link.traffic

    def close(self) -> None:
        """Leave the server."""
        self._link.close()

    def __enter__(self) -> Self:
        return self.start()

    def _serve(self, assignment: Assignment) -> None:
        if getattr(self._executor, "overlaps", False):
            self._do(assignment)  # the executor itself decides what may overlap
            return
        try:
            with assignment.turn(self._busy, "the task before"):
                self._do(assignment)  # an older attempt ends before the next begins
        except StreamlinkError as error:
            # Its stream may be open already, and nobody else would end it.
            logger.warning("%s was cancelled before it began: %s", assignment.attempt, error)
            assignment.decline(error)

    def _do(self, assignment: Assignment) -> None:
        outcome = serve(self._executor, assignment)
        if outcome is not None:
            self.tasks_done += 1
            self.outcomes.append(outcome)
            # In place: ``run`` has returned this list, and users may hold it.
            del self.outcomes[:-KEPT_OUTCOMES]


def _require_executor(executor: object) -> None:
    """Refuse what is no executor now, not when the first task arrives."""
    if isinstance(executor, type):
        raise TypeError(
            f"{executor.__name__} is a class and not an executor; pass one of its objects"
        )
    if callable(getattr(executor, "execute", None)):
        return
    name = getattr(executor, "__name__", "") or f"a {type(executor).__name__}"
    raise TypeError(
        f"{name} is not an executor: it has no method execute(task, assignment); for a function of "
        "(tensor, start, values) pass StreamingExecutor(function), for one of (model, task) "
        "WholeExecutor(function, model), for one of two directories OnDiskExecutor(function, "
        "directory)"
    )
