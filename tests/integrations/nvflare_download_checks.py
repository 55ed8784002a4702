"""Checks of one download, driven as FLARE drives it; run by the python of FLARE's environment.

``nvflare_checks`` runs them.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from threading import Event
from typing import Any
from unittest import TestCase

import numpy as np
from nvflare.app_common.np.np_downloader import ArrayConsumer, ArrayDownloadable
from nvflare.fuel.f3.streaming.download_service import ProduceRC
from nvflare.fuel.f3.streaming.transfer_outcome import DownloadStatus

from streamlink import CancelToken, ModelSource, ModelSpec
from streamlink.errors import Cancelled, UnknownObject
from streamlink.integrations.nvflare.riding import ReferenceDownloadable, reference_consumer
from streamlink.integrations.nvflare.sides import Offer, join, side_of
from streamlink.stores import as_model
from tests.integrations.nvflare_side_checks import (
    MODEL,
    a_job,
    cell,
    error_of,
    joined,
    offered,
    settings,
)


class Own(ArrayDownloadable):
    """FLARE's own chunks, outside of a transaction of its service."""

    def set_transaction(self, tx_id: str, ref_id: str) -> None:
        self.num_receivers = 1


def riding(side: Any, source: ModelSource | None = None) -> ReferenceDownloadable:
    """Return ``MODEL`` as the one end of a job offers it; ``source``: what travels beside it."""
    values = {name: values for name, values in MODEL.items() if name != "narrow"}
    made = ReferenceDownloadable(source or as_model(values), side, lambda: Own(values, 1 << 20))
    made.set_transaction("transaction", "reference")
    return made


def receiver(name: str) -> Any:
    """Return what consumes a download at the cell of that name."""

    def fetch(offer: Offer, cancel: CancelToken) -> Any:
        return join(cell(name), offer, cancel).fetch(offer, "numpy", cancel, lazy=False)

    return reference_consumer(ArrayConsumer, fetch)


def download(sent: ReferenceDownloadable, name: str, until: Any = None) -> Any:
    """Drive a download to its end, or until the receiver's state has it; return the consumer."""
    consumer, state = receiver(name), None
    for _ in range(1000):
        rc, data, state = sent.produce(state, name)
        if rc == ProduceRC.EOF:
            consumer.download_completed("reference")
            return consumer
        state = consumer.consume("reference", state, data)
        if until is not None and state == until:
            return consumer
    raise AssertionError("the download has no end")


def has_arrived(consumer: Any) -> bool:
    return bool(
        np.array_equal(consumer.result["w"], MODEL["w"])
        and np.array_equal(consumer.result["b"], MODEL["b"])
    )


FETCHING = {"streamlink": 2}


def check_a_site_that_may_not_dial_the_port_gets_the_model_flares_own_way(folder: Path) -> None:
    with a_job() as server:
        for _ in range(2):  # and the next model, too
            with settings(ports="1-2"), TestCase().assertLogs(level="WARNING") as logs:
                assert has_arrived(download(riding(server), "site-1.a-job"))
            at_site, at_server = logs.output
            for line, end in ((at_site, "this end"), (at_server, "site-1.a-job")):
                assert f"{end} reports: the server listens at port {server.port}, and" in line, line
                assert f"at port {server.port} of the server" in line
                assert "open that port and the next one, or set streamlink_ports" in line
        assert side_of(cell("site-1.a-job")) is None  # so its results go FLARE's way as well
        assert has_arrived(download(riding(server), "site-2.a-job"))


def check_a_site_that_nobody_answers_waits_once_and_not_for_each_model(folder: Path) -> None:
    with a_job(server="127.0.0.9") as server:  # it listens at 127.0.0.1
        assert has_arrived(download(riding(server), "site-1.a-job"))
        with TestCase().assertLogs(level="WARNING") as logs:
            assert has_arrived(download(riding(server), "site-1.a-job"))
        assert f"site-1.a-job at port {server.port} tries again in " in logs.output[0]


def check_a_site_without_streamlink_gets_the_task_flares_own_way_when_it_asks_again(
    folder: Path,
) -> None:
    with a_job() as server:
        sent, consumer = riding(server), ArrayConsumer(None, {})
        _, data, state = sent.produce(None, "site-1.a-job")
        sent.produce(state, "site-1.a-job")  # FLARE's consumers ask on before they read a chunk
        error_of(lambda: consumer.consume("reference", state, data), Exception)
        with TestCase().assertLogs(level="WARNING") as logs:
            sent.downloaded_to_one("site-1.a-job", DownloadStatus.FAILED)
        assert "site-1.a-job cannot read a reference; set NVFLARE_NVFLARE_D" in logs.output[0]
        _, data, state = riding(server).produce(None, "site-1.a-job")
        consumer.consume("reference", state, data)
        assert has_arrived(consumer)
        assert server.reaches("site-2.a-job")


def check_a_site_that_could_read_references_before_still_gets_them(folder: Path) -> None:
    with a_job() as server:
        download(riding(server), "site-1.a-job")
        sent = riding(server)
        sent.produce(None, "site-1.a-job")
        sent.downloaded_to_one("site-1.a-job", DownloadStatus.FAILED)
        assert server.reaches("site-1.a-job")


def check_a_result_that_cannot_be_put_goes_flares_own_way(folder: Path) -> None:
    with a_job(max_bytes="60") as server:
        side = joined(offered(server, "site-1"))  # which leaves no room for another one
        with TestCase().assertLogs(level="WARNING") as logs:
            assert has_arrived(download(riding(side), "server.a-job"))
        assert "this end reports: an object of " in logs.output[0]
        assert "max_bytes" in logs.output[0]


def check_a_reference_to_an_object_that_is_gone_fails_the_download(folder: Path) -> None:
    with a_job() as server:
        joined(offered(server, "site-1"))
        consumer = receiver("site-1.a-job")
        sent = riding(server)
        _, data, state = sent.produce(None, "site-1.a-job")
        server.objects.drop(json.loads(data[0].split(b":", 1)[1])["reference"])
        error = error_of(lambda: [consumer.consume("reference", state, data) for _ in range(100)])
        assert isinstance(error, UnknownObject)


def check_an_upload_that_nobody_opens_goes_with_flares_transaction(folder: Path) -> None:
    with a_job() as server:
        side = joined(offered(server, "site-1"))
        before = len(server.objects)
        sent, state = riding(side), None
        while state != {"streamlink": 1}:
            _, _, state = sent.produce(state, "server.a-job")
        assert len(server.objects) == before + 1
        sent.release()
        eventually(lambda: len(server.objects) == before)
        error = error_of(lambda: sent.produce(None, "server.a-job"))
        assert "this model was released" in str(error)


def eventually(holds: Callable[[], bool]) -> None:
    for _ in range(6000):
        if holds() or Event().wait(0.01):
            return
    raise AssertionError("it never held")


class Stuck:
    """A model whose first read waits until the end of the check."""

    spec: ModelSpec = as_model({"w": np.ones(1 << 20, np.float32)}).spec

    def __init__(self) -> None:
        self.is_read, self.goes_on = Event(), Event()

    def read(self, offset: int, length: int) -> tuple[memoryview, ...]:
        self.is_read.set()
        assert self.goes_on.wait(60)
        return (memoryview(bytes(length)),)

    def close(self) -> None:
        """Nothing is open."""


def check_a_fetch_ends_when_flare_gives_up_its_download(folder: Path) -> None:
    stuck = Stuck()
    with a_job() as server:
        consumer = download(riding(server, stuck), "site-1.a-job", until=FETCHING)
        consumer.download_failed("reference", "FLARE gives up")
        assert isinstance(consumer.fetched.exception(timeout=60), Cancelled)
        stuck.goes_on.set()


def check_an_upload_ends_and_leaves_nothing_when_flare_gives_up_its_transaction(
    folder: Path,
) -> None:
    stuck = Stuck()
    with a_job() as server:
        side = joined(offered(server, "site-1"))
        before, sent = len(server.objects), riding(side, stuck)
        sent.produce(None, "server.a-job")
        assert stuck.is_read.wait(60)
        sent.release()
        stuck.goes_on.set()
        eventually(lambda: len(server.objects) == before)
