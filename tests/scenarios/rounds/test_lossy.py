"""Rounds whose models and updates are rounded on their way, against a computation of their own."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import streamlink as sl
from streamlink.config import LinkConfig
from streamlink.errors import ModelError, StoreError
from streamlink.executors.executor import Executor, Task, TaskResult
from streamlink.executors.ondisk import OnDiskExecutor
from streamlink.executors.streaming import StreamingExecutor
from streamlink.executors.whole import WholeExecutor
from streamlink.link.transfer_facts import TransferFacts
from streamlink.model.computed import map_model
from streamlink.model.spec import TensorSpec
from streamlink.stores import ArrayModel, open_model
from streamlink.stores.memory import MemoryStore
from streamlink.stores.safetensors import SafetensorsStore
from tests.scenarios.rounds.test_spool_resume import FIVE, LINKED
from tests.support.jobs import Job as Rounds
from tests.support.models import content
from tests.support.peers import WAIT, Array, Federation, assert_same, config, initial
from tests.support.processes import fact
from tests.support.round_processes import Job

RNG = np.random.default_rng(11)
BEFORE: dict[str, Array] = {
    "odd": np.arange(3, dtype=np.uint8),
    "w": RNG.standard_normal((70, 101)).astype(np.float32),
    "scalar": np.full((), 0.1, np.float32),
    "empty": np.zeros((0, 4), np.float32),
    "b": RNG.standard_normal(300).astype(np.float32),
    "count": np.arange(9),
}
SIXTEEN_KIB = {
    "chunk_bytes": 16_384,
    "min_chunk_bytes": 16_384,
    "window_bytes": 65_536,
    "initial_window_bytes": 32_768,
}
"""Chunks of one size, so that how much can be packed does not depend on the time."""
FLOATS = ("w", "scalar", "b")
Wide = npt.NDArray[np.float64]


def step(number: int, task_round: int) -> Callable[[TensorSpec, int, Array], Array]:
    """What a client adds in a round: it depends on the client, the round and the position."""

    def function(tensor: TensorSpec, start: int, values: Array) -> Array:
        if values.dtype.kind != "f":
            return values
        at = np.arange(start, start + values.size) * (number + 3) + 7 * task_round
        moved: Array = values + np.sin(at).astype(values.dtype) / 8
        return moved

    return function


def int8(values: Wide) -> Wide:
    """Blockwise int8 of F32 values, block by block and number by number."""
    rounded = []
    for start in range(0, values.size, 256):
        block = values[start : start + 256]
        fraction, exponent = math.frexp(max(map(abs, block)) / 127)
        scale = max(math.ceil(fraction * 65536) / 65536 * 2.0**exponent, 2.0**-134)
        rounded += [round(float(np.float32(each) / np.float32(scale))) * scale for each in block]
    return np.array(rounded)


def fp16(values: Wide) -> Wide:
    return values.astype(np.float16).astype(np.float64)


def expected(rounds: int, *, feedback: bool, down: Callable[[Wide], Wide]) -> dict[str, Array]:
    """Return the model after some rounds of two clients, whole tensor by whole tensor."""
    model = {name: array.copy() for name, array in BEFORE.items()}
    left = {(n, name): np.zeros(BEFORE[name].size) for n in range(2) for name in FLOATS}
    for number in range(rounds):
        for name in FLOATS:
            tensor = TensorSpec(name, "F32", BEFORE[name].shape)
            flat = model[name].reshape(-1)
            received = down(flat.astype(np.float64)).astype(np.float32)
            updates = []
            for client in range(2):
                trained = step(client, number)(tensor, 0, received)
                whole = (trained - received).astype(np.float64)
                if feedback:
                    whole = whole + left[client, name]
                sent = int8(whole.astype(np.float32).astype(np.float64))
                left[client, name] = (whole - sent).astype(np.float32).astype(np.float64)
                updates.append(sent)
            flat[:] = (flat.astype(np.float64) + (updates[0] + updates[1]) / 2).astype(np.float32)
    return model


def executor(kind: str, number: int, folder: Path) -> Executor:
    def train(model: dict[str, Array], task: Task) -> TaskResult:
        for name, array in model.items():
            tensor = TensorSpec(name, "F32" if name in FLOATS else "I64", array.shape)
            flat = array.reshape(-1)
            flat[:] = step(number, task.round)(tensor, 0, flat)
        return TaskResult()

    def train_file(model_dir: Path, update_dir: Path, task: Task) -> TaskResult:
        after = map_model(open_model(model_dir), step(number, task.round))
        sl.copy_model(after, SafetensorsStore(update_dir).begin(after.spec))
        return TaskResult()

    match kind:
        case "whole":
            return WholeExecutor(train, returns="differences", declares_norm=True)
        case "disk":
            return OnDiskExecutor(train_file, folder / f"work-{number}", returns="differences")
    return Streaming(number)


class Streaming:
    """A streaming executor whose work depends on the round."""

    is_pure = True

    def __init__(self, number: int) -> None:
        self._number = number

    def execute(self, task: Task, assignment: Any) -> Any:
        function = step(self._number, task.round)
        return StreamingExecutor(function, returns="differences").execute(task, assignment)


class Run:
    """Some rounds of two clients, the facts of their transfers, and the reports."""

    def __init__(
        self,
        link: LinkConfig,
        folder: Path,
        *,
        kind: str = "streaming",
        rounds: int = 3,
        **rules: Any,
    ) -> None:
        self.facts: list[TransferFacts] = []
        self.store = MemoryStore(BEFORE)
        with Federation(link, on_transfer=self.facts.append) as federation:
            for number in range(2):
                federation.client(f"site-{number}", executor(kind, number, folder))
            federation.server.wait_for_peers(2, WAIT)
            settings = sl.RoundConfig(num_rounds=rounds, **rules)
            spool = folder / "spool" if rules.get("gather") == "spool" else None
            job = sl.ScatterAndGather(federation.server, self.store, settings, spool=spool)
            self.reports = job.run()

    def moved(self, direction: str) -> list[TransferFacts]:
        return [each for each in self.facts if each.direction == direction]


@pytest.mark.slow
@pytest.mark.parametrize("carrier", ["tcp", "grpc"])
@pytest.mark.parametrize("feedback", [True, False])
def test_the_new_model_is_that_of_a_computation_on_whole_tensors(
    tmp_path: Path, carrier: str, feedback: bool
) -> None:
    stream: dict[str, Any] = {"lossy_down": "*=fp16", "lossy_up": "*=int8", **SIXTEEN_KIB}
    if feedback:
        stream["error_feedback"] = tmp_path / "left"
    if carrier == "grpc":
        stream["data_listen"] = "none"
    run = Run(config(stream=stream), tmp_path)
    assert_same(run.store.arrays, expected(3, feedback=feedback, down=fp16))
    assert {each.carrier for each in run.facts} == {carrier}
    for down in run.moved("sent"):
        assert down.wire_bytes < 0.55 * down.bytes
        assert down.rounding is not None
        assert down.rounding.formats == ("fp16",)
        assert 0 < down.rounding.max_abs <= 8 * 2.0**-11  # no weight is above 8
        assert 0 < down.rounding.relative_rms < 2.0**-11
    for up in run.moved("received"):
        assert up.wire_bytes < 0.35 * up.bytes  # at the ends of chunks are parts of blocks
    for report in run.reports:
        for facts in report.metadata.values():
            assert facts["rounding_up"].startswith("int8 max_abs=")
            assert facts["rounding_down"].startswith("fp16 max_abs=")


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["whole", "disk"])
@pytest.mark.parametrize("gather", ["lockstep", "spool"])
def test_every_executor_sends_the_same_bits(tmp_path: Path, kind: str, gather: str) -> None:
    stream = {"lossy_up": "*=int8", "error_feedback": tmp_path / "left"}
    run = Run(config(stream=stream), tmp_path, kind=kind, gather=gather)
    assert_same(run.store.arrays, expected(3, feedback=True, down=lambda values: values))
    kept = sorted(path.relative_to(tmp_path / "left") for path in (tmp_path / "left").rglob("*"))
    assert kept == sorted(
        Path(f"client-site-{n}", *name) for n in range(2) for name in ((), ("remainder",))
    )


@pytest.mark.slow
@pytest.mark.parametrize("duplex_bytes", [4096, 1 << 20])
def test_duplex_rounds_send_the_same_rounded_models(tmp_path: Path, duplex_bytes: int) -> None:
    stream = {"lossy_down": "*=int8", "lossy_up": "*=int8"}
    one = Run(config(stream=stream), tmp_path, kind="whole")
    other = Run(config(stream=stream), tmp_path, kind="whole", duplex_bytes=duplex_bytes)
    assert_same(other.store.arrays, one.store.arrays)
    assert_same(one.store.arrays, expected(3, feedback=False, down=int8))


def test_a_rule_for_a_tensor_that_is_not_there_is_refused_before_any_client_is_asked() -> None:
    with Federation(config(stream={"lossy_down": "tail=int8"})) as federation:
        with pytest.raises(ModelError, match="no tensor's name matches the pattern 'tail'"):
            sl.ScatterAndGather(federation.server, MemoryStore(BEFORE))


def test_a_directory_that_cannot_be_made_is_refused_before_a_client_connects(
    tmp_path: Path,
) -> None:
    (tmp_path / "file").write_text("")
    link = config(stream={"lossy_up": "*=int8", "error_feedback": tmp_path / "file" / "left"})
    with pytest.raises(StoreError, match=r"cannot be kept \(stream\.error_feedback\)"):
        sl.Client("127.0.0.1:1", "site-0", Streaming(0), link)


# --- with real processes ---------------------------------------------------------------------


@pytest.fixture
def links(tmp_path: Path) -> Callable[[str], dict[str, Any]]:
    """Give the settings of a link whose remainders are in a folder of that name."""

    def link(name: str) -> dict[str, Any]:
        stream = {**LINKED["stream"], "lossy_down": "*=int8", "lossy_up": "*=int8"}
        if name:
            stream["error_feedback"] = str(tmp_path / name)
        return {**LINKED, "stream": stream}

    return link


def undisturbed(link: dict[str, Any]) -> str:
    """Return the digest after two rounds of two clients, in this process."""
    settings = LinkConfig.model_validate(link)
    with Rounds(settings, arrays=initial(FIVE), num_rounds=2) as job:
        for number in range(2):
            job.site(number)
        job.start(2)
        job.reports()
        return sl.digest_of(job.store.open())


@pytest.mark.processes
@pytest.mark.parametrize("gather", ["lockstep", "spool"])
def test_a_killed_client_resumes_its_update_and_keeps_what_is_left_of_it(
    tmp_path: Path, links: Callable[[str], dict[str, Any]], gather: str
) -> None:
    rules = {"wait_time_after_min_received": 60, "model": FIVE, "num_rounds": 2}
    fates = {0: "", 1: "hang@t3"}
    with Job(tmp_path / "job", gather=gather, fates=fates, link=links("killed"), **rules) as job:
        job.reached(1).kill()
        again = job.client(1)
        digest = fact(job.server, "digest")["digest"]
        # What came before the kill did not come again; the second round is whole.
        assert FIVE.nbytes < fact(again, "seen") <= 1.5 * FIVE.nbytes + 1024
    assert digest == undisturbed(links("whole")) != undisturbed(links(""))
    left = [
        (tmp_path / name / "client-site-1" / "remainder").read_bytes()[4096:]
        for name in ("killed", "whole")
    ]
    assert left[0] == left[1]
    assert any(left[0])


def test_models_of_rounds_alone_are_rounded(tmp_path: Path) -> None:
    """A model that is sent by itself arrives as it is, whatever the settings of rounds."""
    link = config(stream={"lossy_down": "*=int8", "lossy_up": "*=int8"})
    source = ArrayModel(BEFORE)
    with Federation(link) as federation:
        federation.link("site-0")
        exchange = federation.peer("site-0").ask("echo", source, into=(store := MemoryStore()))
        exchange.result(WAIT)
    assert content(store.open()) == content(source)
