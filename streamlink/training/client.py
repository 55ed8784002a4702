"""One client of a training job."""

from __future__ import annotations

from collections.abc import Callable

from streamlink import Client, Executor
from streamlink.cancel import CancelToken
from streamlink.config import JobConfig
from streamlink.executors import TaskOutcome
from streamlink.training.settings import ClientSettings

__all__ = ["for_client", "link_config", "run_client"]

_CONNECT_SECONDS = 600


def for_client(settings: ClientSettings, index: int, num_clients: int) -> ClientSettings:
    """Return the settings of one client of several that share a file.

    Args:
        settings: of all of them.
        index: of the client, from 0; its name becomes ``Client`` and the number from 1.
        num_clients: how many there are.

    Raises:
        ValueError: there is no such client.
    """
    if not 0 <= index < num_clients:
        raise ValueError(f"client {index} of {num_clients}: they are counted from 0")
    kwargs = {**settings.data.kwargs, "client_id": index, "num_clients": num_clients}
    if "visualization" in kwargs:  # a picture of how data is divided, by one client
        kwargs["visualization"] = bool(kwargs["visualization"]) and index == 0
    data = settings.data.model_copy(update={"kwargs": kwargs})
    return settings.model_copy(update={"client_id": f"Client{index + 1}", "data": data})


def link_config(settings: ClientSettings, given: list[str] | None = None) -> JobConfig:
    """Return the settings of the client's link; ``given`` ones take precedence.

    Raises:
        ValueError: they are not allowed; names the setting.
    """
    settings.comm.require_certificates("root_certificate")
    # The server may still make its model while its clients are started.
    waits = f"timeouts.connect_timeout={_CONNECT_SECONDS}"
    return JobConfig.assemble(None, [*settings.comm.link_settings(), waits, *(given or [])])


def run_client(
    settings: ClientSettings,
    executor: Executor,
    *,
    server: str | None = None,
    config: JobConfig | None = None,
    cancel: CancelToken | None = None,
    begun: Callable[[Client], object] = lambda _: None,
) -> list[TaskOutcome]:
    """Take part until the server ends the job.

    Args:
        settings: of the client.
        executor: a ``TrainingExecutor``.
        server: where the server listens; None: the host and port of ``settings``.
        config: of the link; None: what ``settings`` say.
        cancel: ends it.
        begun: called with the client once it is connected.

    Raises:
        StreamlinkError: the server cannot be reached, or the job failed.
    """
    address = server or settings.comm.server_uri
    config = config or link_config(settings)
    with Client(address, settings.client_id, executor, config, cancel=cancel) as client:
        begun(client)
        return client.run()
