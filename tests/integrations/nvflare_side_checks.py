"""Checks of the two ends of a job, without a job, run by the python of FLARE's environment.

``nvflare_checks`` runs them.
"""

from __future__ import annotations

import os
import select
import socket
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from threading import Event
from types import SimpleNamespace
from typing import Any
from unittest import TestCase
from unittest.mock import patch

import ml_dtypes
import numpy as np
from nvflare.fuel.utils.config_service import ConfigService

from streamlink import CancelToken
from streamlink.errors import (
    AuthenticationFailed,
    ObjectLimit,
    ObjectRefused,
    SecurityError,
    StreamlinkError,
)
from streamlink.integrations.nvflare.sides import (
    Offer,
    ServerSide,
    SiteSide,
    check,
    close_all,
    join,
    side_of,
)
from streamlink.stores import as_model

MODEL: dict[str, Any] = {
    "w": np.arange(6, dtype=np.float32).reshape(2, 3),
    "b": np.ones(3, np.float64),
    "narrow": np.ones(4, ml_dtypes.bfloat16),
}


def cell(name: str) -> Any:
    """Return what a side asks of FLARE's cell of that name."""
    return SimpleNamespace(
        get_fqcn=lambda: name,
        get_fobs_context=dict,
        get_root_url_for_child=lambda: "grpc://127.0.0.1:1",
    )


@contextmanager
def settings(**values: object) -> Iterator[None]:
    """Set some of the integration's settings; FLARE would read each of them only once."""
    names = {f"NVFLARE_STREAMLINK_{name.upper()}": str(each) for name, each in values.items()}
    with patch.dict(os.environ, names):
        ConfigService.reset()
        yield
    ConfigService.reset()


@contextmanager
def a_job(**values: object) -> Iterator[ServerSide]:
    """Yield a job's server; all sites of the job leave it at the end."""
    with settings(**values), closing(ServerSide(cell("server.a-job"))) as server:
        try:
            yield server
        finally:
            close_all()


def offered(server: ServerSide, site: str) -> Offer:
    """Return what the job's process at ``site`` gets in a message: ``MODEL``."""
    assert server.reaches(f"{site}.a-job")
    return server.offer(as_model(MODEL), f"{site}.a-job", CancelToken())


def joined(offer: Offer, site: str = "site-1") -> SiteSide:
    side = join(cell(f"{site}.a-job"), offer, CancelToken())
    assert isinstance(side, SiteSide)
    return side


def error_of(action: Callable[[], object], kind: type[Exception] = StreamlinkError) -> Exception:
    """Return the error that an action ends with."""
    try:
        action()
    except kind as error:
        return error
    raise AssertionError("it was accepted")


def check_a_site_whose_session_is_over_joins_again(folder: Path) -> None:
    with settings(ports=free_range()), closing(ServerSide(cell("server.a-job"))) as first:
        side = joined(offered(first, "site-1"))
        assert joined(offered(first, "site-1")) is side
        first.close()
        for _ in range(6000):  # the goodbye is on its way
            if side.client.is_over or Event().wait(0.01):
                break
        assert side.client.is_over
        with closing(ServerSide(cell("server.a-job"))) as again:
            assert again.objects.port == first.objects.port
            assert joined(offered(again, "site-1")) is not side
            close_all()


def free_range() -> str:
    """Return a range of ports, whose first pair is the same one each time."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        low = free.getsockname()[1]
    return f"{low}-{low + 39}"


def check_more_than_sixteen_sites_are_in_one_job_with_1024_descriptors(folder: Path) -> None:
    names = [f"site-{number}" for number in range(1, 21)]
    with a_job() as server:
        sides = {name: joined(offered(server, name), name) for name in names}
        for name, side in sides.items():  # while all of them are there
            got = side.fetch(offered(server, name), "numpy", CancelToken(), lazy=False)
            assert np.array_equal(got["w"], MODEL["w"])


def check_models_of_sites_beyond_streamlink_max_clients_stay_with_flare(folder: Path) -> None:
    with a_job(max_clients=2) as server:
        reached = [each for each in "abcab" if server.reaches(f"{each}.a-job")]
        assert reached == ["a", "b", "a", "b"]
        for name in "ab":
            joined(offered(server, name), name)


def check_a_server_takes_no_more_than_streamlink_max_bytes(folder: Path) -> None:
    with a_job(max_bytes="4KiB") as server:
        side = joined(offered(server, "site-1"))
        assert side.offer(as_model(MODEL), "server.a-job", CancelToken()).reference
        large = as_model({"w": np.ones(1024, np.float64)})
        error = error_of(lambda: side.offer(large, "server.a-job", CancelToken()))
        assert isinstance(error, ObjectLimit)
        assert "4096" in str(error)


def check_objects_may_live_for_longer_than_a_week(folder: Path) -> None:
    with a_job(ttl=30 * 24 * 3600) as server:
        assert (
            joined(offered(server, "site-1"))
            .offer(as_model(MODEL), "server.a-job", CancelToken())
            .reference
        )


def check_a_server_with_settings_that_cannot_be_used_leaves_models_to_flare(folder: Path) -> None:
    (folder / "file").touch()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        for name, value in {
            "ports": taken.getsockname()[1],  # none is free
            "spool": folder / "file",
            "listen": "no such host",
            "max_bytes": "4 elephants",
            "max_clients": "many",
            "ttl": "a day",
        }.items():
            with settings(**{name: value}), TestCase().assertLogs(level="ERROR") as logs:
                assert side_of(cell("server.a-job")) is None
                assert side_of(cell("server.a-job")) is None  # and is not tried again
            assert "FLARE carries its models itself" in logs.output[0], name
            assert len(logs.output) == 1
            close_all()
    with settings(ports="84a3-8452"), TestCase().assertLogs(level="ERROR"):
        assert side_of(cell("server.a-job")) is None
        close_all()


def check_a_site_dials_no_port_outside_of_its_range(folder: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as stranger:
        port = stranger.getsockname()[1]
        for ports in (f"{port + 1}-{port + 2}", f"{port - 2}-{port - 1}"):
            with settings(ports=ports):
                error = error_of(partial(joined, Offer("none", port, "site-1", "none")))
            assert isinstance(error, SecurityError)
            assert f"port {port}, and this client may dial 127.0.0.1:{ports} only" in str(error)
        assert not select.select([stranger], [], [], 0.0)[0]  # nobody has dialled


def check_a_site_needs_its_own_token_of_this_job(folder: Path) -> None:
    with a_job() as server, closing(ServerSide(cell("server.another-job"))) as other:
        own, beside = offered(server, "site-1"), offered(server, "site-2")
        elsewhere = other.offer(as_model(MODEL), "site-1.another-job", CancelToken())
        for token in ("made-up-and-long-enough", beside.token, elsewhere.token):
            error = error_of(partial(joined, replace(own, token=token)))
            assert isinstance(error, AuthenticationFailed), error
        joined(own)


def check_a_site_reads_no_object_of_another_site(folder: Path) -> None:
    with a_job() as server:
        side, others = joined(offered(server, "site-1")), offered(server, "site-2")
        error = error_of(lambda: side.fetch(others, "numpy", CancelToken(), lazy=False))
        assert isinstance(error, ObjectRefused)
        got = joined(others, "site-2").fetch(others, "numpy", CancelToken(), lazy=False)
        assert np.array_equal(got["w"], MODEL["w"])


def check_a_trainer_in_a_process_of_its_own_gets_flares_own_bytes(folder: Path) -> None:
    with a_job() as server:
        assert server.reaches("site-1.a-job")
        assert server.reaches("relay.site-1.a-job")
        assert not server.reaches("site-1.a-job.trainer")
        assert not server.reaches("site-1")


def check_a_setting_of_a_site_that_cannot_be_used_is_refused_by_its_name(folder: Path) -> None:
    check()
    wrong = {"ports": "84a3", "min_bytes": "one", "reconnect_timeout": "soon"}
    for name, value in {**wrong, "rejoin_timeout": "-1"}.items():
        with settings(**{name: value}):
            error = error_of(check, ImportError)
        assert f"streamlink_{name} (NVFLARE_STREAMLINK_{name.upper()}) is" in str(error)
