"""The server's end of a job, for every command that has one."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import typer

from streamlink.cli.checks import (
    check_best,
    check_control,
    check_curves,
    check_events,
    check_job,
    check_offers,
    check_serving,
)
from streamlink.cli.command import Common, a_job
from streamlink.cli.paths import ledger_of, model_digest, store_with_a_model, stored_bytes
from streamlink.cli.services import control_socket, metrics_endpoint, security_summary
from streamlink.config import JobConfig, RoundConfig
from streamlink.fleet import Reporter
from streamlink.link.server import Server
from streamlink.logs import escape, summary
from streamlink.model.interfaces import ModelStore
from streamlink.operate.event_lines import EventLines
from streamlink.operate.status import JobOperator, Memory, StartingOperator
from streamlink.operate.tensorboard import TensorBoardWriter
from streamlink.progress import show_progress
from streamlink.rounds.controller import ScatterAndGather
from streamlink.rounds.events import RoundEvent
from streamlink.rounds.ledger import Ledger
from streamlink.rounds.report import RoundReport
from streamlink.transport.addresses import listening_at

__all__ = ["ServerOptions", "serve_job"]

logger = logging.getLogger("streamlink.command")


@dataclass(frozen=True, slots=True)
class ServerOptions:
    """What a server is given on the command line, beside its address and its settings."""

    store: Path
    compress: str | None
    job: str
    spool: Path | None
    state: Path | None
    resume: bool
    ledger: Path | None
    best: Path | None
    tensorboard: Path | None
    events: Path | None
    control: str | None
    metrics: str | None
    report: Path | None

    def checked(self, config: JobConfig) -> ModelStore:
        """Return the store, once it and the settings were checked."""
        place = store_with_a_model(self.store, self.compress)
        check_job(place, config, self.spool, self.state)
        check_best(self.best, self.store, config.rounds)
        check_curves(self.tensorboard)
        check_events(self.events)
        check_offers(config)
        return place

    def ledger_for(self, place: ModelStore, rules: RoundConfig) -> Ledger:
        """Return the record of the completed rounds."""
        path = self.ledger or ledger_of(self.store)
        return Ledger(path, place, rules, job=self.job, resume=self.resume)


def serve_job(
    listen: str,
    options: ServerOptions,
    common: Common,
    *,
    report_fd: int | None = None,
    begun: Callable[[], object] = lambda: None,
) -> None:
    """Run all rounds of a job; with ``--check`` only check what it needs.

    Args:
        listen: where.
        options: what the user gave.
        common: settings, log and signals.
        report_fd: where a parent process reads facts about this one.
        begun: called once clients can come.
    """
    place, rules = options.checked(common.config), common.config.rounds
    if common.is_check:
        check_control(options.control)
        check_serving(listen, common.config)
        options.ledger_for(place, rules)
        return
    reporter = Reporter(report_fd)
    starting = StartingOperator()
    with ExitStack() as watching:
        # First of all: a second server of the same store must end before it changes anything.
        watching.enter_context(control_socket(starting.answer, options.store, options.control))
        kept = options.ledger_for(place, rules)
        reporter.report_base()
        # Before the first channel: what the process grows from here on, the transfers take.
        memory = Memory()
        # A stack of its own: the server closes first, while the operator's socket still answers.
        serving = watching.enter_context(ExitStack())
        listening = serving.enter_context(Server(listen, common.config, cancel=common.cancel))
        rounds = ScatterAndGather(
            listening, place, rules, job=options.job, spool=options.spool, state=options.state,
            ledger=kept, best=options.best, on_event=_listener(options, watching),
        )  # fmt: skip
        starting.hand_over(JobOperator(listening, rounds, memory, kept.path).answer)
        reporter.report(port=listening.port)
        way, waits = security_summary(common.config.security), _waits(rules, kept)
        logger.info("listening on %s (%s)%s", listening_at(listen, listening.port), way, waits)
        serving.enter_context(metrics_endpoint(options.metrics, listening, rounds))
        begun()
        with a_job():
            rounds.wait_for_clients()
        began = time.monotonic()  # after the wait: it depends on people who start the clients
        with a_job(), show_progress(rounds.client_progress, common.console, headline=rounds.state):
            done = rounds.run()
        seconds = time.monotonic() - began
        moved = listening.wire_bytes
        serving.close()
        kept.close()  # before the socket: ``status --watch`` then reads the result in the ledger
    facts = {**_closing(place, done, kept.rounds, seconds, moved), **_verdict(kept)}
    summary(logger, "job done", **facts)
    typer.echo(_sentence(facts))
    told = {**facts, "reports": [asdict(each) for each in done]}
    reporter.report(**told, rounds_seconds=[round(each.seconds, 2) for each in done])
    reporter.report(contributors=[sorted(each.weights) for each in done])
    reporter.report_usage()
    # Last: a disk that is full by now costs the report, and not what the parent is told.
    if options.report is not None:
        text = json.dumps(told, indent=1, default=dict)
        options.report.write_text(text + "\n", encoding="utf-8")


def _listener(options: ServerOptions, stack: ExitStack) -> Callable[[RoundEvent], None]:
    """Return what is called with each event of the rounds, and is closed with ``stack``."""
    listeners: list[Callable[[RoundEvent], None]] = []
    if options.events is not None:
        listeners.append(stack.enter_context(EventLines(options.events)))
    if options.tensorboard is not None:
        listeners.append(stack.enter_context(TensorBoardWriter(options.tensorboard)))

    def hear(event: RoundEvent) -> None:
        for each in listeners:
            each(event)

    return hear


def _waits(rules: RoundConfig, kept: Ledger) -> str:
    """Return the words for whom a server waits before its first round."""
    count = max(rules.wait_for_clients, rules.min_clients)
    number = "1 client" if count == 1 else f"{count} clients"
    seconds = rules.wait_for_clients_seconds
    return "" if kept.is_finished else f", waiting for {number} for up to {seconds:g} s"


def _closing(
    place: ModelStore,
    done: Sequence[RoundReport],
    rounds: int,
    seconds: float,
    moved: tuple[int, int],
) -> dict[str, Any]:
    """Return what there is to say of a job that is done."""
    with a_job():
        model = place.open()
    try:
        return {
            "rounds": rounds,
            "seconds": round(seconds, 2),
            "wire_bytes_sent": moved[0],
            "wire_bytes_received": moved[1],
            "updates": sum(len(each.weights) for each in done),
            "dropped": sum(len(each.failures) for each in done),
            "model_bytes": model.spec.nbytes,
            "stored_bytes": stored_bytes(model),
            "final_digest": model_digest(model) or "",
        }
    finally:
        model.close()


def _verdict(kept: Ledger) -> dict[str, Any]:
    """Return which model is the best, and why the job ended early, where it has either."""
    best = kept.standing
    which = {"metric": best.metric, "value": best.value, "round": best.round} if best else {}
    facts = {"best": which, "stopped": kept.stopped}
    return {name: fact for name, fact in facts.items() if fact}


def _sentence(facts: dict[str, Any]) -> str:
    moved = facts["wire_bytes_sent"] + facts["wire_bytes_received"]
    rounds = "1 round" if facts["rounds"] == 1 else f"{facts['rounds']} rounds"
    sentence = (
        f"{rounds} in {facts['seconds']:.1f} s, {facts['updates']} updates, "
        f"{moved / 1e6:.1f} MB on the wire; model {facts['final_digest'][:16]}"
    )
    if "stopped" in facts:
        return f"{sentence}; stopped early: {escape(facts['stopped'])}"
    if best := facts.get("best"):
        found = f"{escape(best['metric'])} {best['value']:.6g} of round {best['round']}"
        return f"{sentence}; the best has {found}"
    return sentence
