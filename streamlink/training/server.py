"""The server of a training job: an initial model in a store, and rounds over it.

With all its optimisations it streams from and into the store and never imports PyTorch: the initial
model is made by a process of its own, whose memory goes back to the system. Otherwise
``original_server`` runs the rounds.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from streamlink import RoundEvent, RoundReport, ScatterAndGather, Server
from streamlink.cancel import CancelToken
from streamlink.config import JobConfig
from streamlink.model import ModelStore
from streamlink.training.order import order_facts
from streamlink.training.settings import ServerSettings

__all__ = ["job_config", "run_server"]

logger = logging.getLogger("streamlink.training")

JOB = "training"


def _ignore(event: RoundEvent) -> None:
    pass


def job_config(settings: ServerSettings, given: list[str] | None = None) -> JobConfig:
    """Return the settings of the job's links and rounds.

    Args:
        settings: of the server.
        given: further settings, each as ``section.key=value``; they take precedence.

    Raises:
        ValueError: they are not allowed; names the setting.
    """
    settings.comm.require_certificates("server_certificate", "server_certificate_key")
    weights = "equal" if settings.client_weights == "equal" else "given"
    rounds = [
        f"rounds.min_clients={settings.num_clients}",
        f"rounds.wait_for_clients={settings.num_clients}",
        f"rounds.num_rounds={settings.num_rounds}",
        f"rounds.weights={weights}",
        "rounds.gather=lockstep",
        "rounds.wait_for_clients_seconds=600",
    ]
    return JobConfig.assemble(None, [*settings.comm.link_settings(), *rounds, *(given or [])])


def run_server(
    settings: ServerSettings,
    store: ModelStore,
    *,
    listen: str | None = None,
    config: JobConfig | None = None,
    cancel: CancelToken | None = None,
    begun: Callable[[Server], object] = lambda _: None,
    on_event: Callable[[RoundEvent], None] = _ignore,
) -> list[RoundReport]:
    """Run all rounds and return their reports; the store has the last model.

    Args:
        settings: of the server.
        store: has the initial model.
        listen: where; None: the host and port of ``settings``.
        config: of links and rounds; None: what ``settings`` say.
        cancel: ends it.
        begun: called with the server once clients can come.
        on_event: called with each event of the rounds.

    Raises:
        StreamlinkError: the job failed.
    """
    config = config or job_config(settings)
    facts = order_facts(settings.order)
    with Server(listen or settings.comm.server_uri, config, cancel=cancel) as server:
        begun(server)
        if settings.optimize_memory and not settings.comm.is_whole:
            rounds = ScatterAndGather(
                server,
                store,
                config.rounds,
                job=JOB,
                metadata=lambda attempt, peer_name: facts,
                on_event=on_event,
            )
            return rounds.run()
        from streamlink.training.original_server import OriginalRounds

        return OriginalRounds(server, store, settings, config.rounds, facts, JOB, on_event).run()
