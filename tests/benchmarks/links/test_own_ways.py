"""streamlink's encodings and its computed models, moved by real processes over a real line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from benchmarks.links.kept import read
from benchmarks.links.measuring import measure
from benchmarks.links.payload import Payload, digest
from benchmarks.links.peers import found
from benchmarks.links.peers.ours_computed import computed
from benchmarks.links.plans import (
    COMPUTED,
    ENCODED,
    NOT_FOR,
    What,
    encoded_cases,
    large_plan,
    plan_of,
)
from benchmarks.links.rounded import to_bf16, to_fp16, to_int8
from benchmarks.links.series import left_to_do, seconds_left
from streamlink.encodings.int8 import Int8
from tests.benchmarks.links.test_measuring import links
from tests.benchmarks.links.test_series import Here

MIB, GB = 1 << 20, 10**9


def test_bf16_rounds_to_the_nearest_and_ties_to_even() -> None:
    values = np.array([1.0, 1.0 + 2**-8, 1.0 + 3 * 2**-8, -1.0 - 2**-7], np.float32)
    assert to_bf16(values).tolist() == [1.0, 1.0, 1.0 + 2**-6, -1.0 - 2**-7]


def test_fp16_keeps_eleven_bits() -> None:
    values = np.array([1.0, 1.0 + 2**-11, 1.0 + 3 * 2**-11], np.float32)
    assert to_fp16(values).tolist() == [1.0, 1.0, 1.0 + 2**-9]


def test_int8_keeps_multiples_of_the_largest_of_each_block_divided_by_127() -> None:
    first, second = np.linspace(-127, 127, 256, dtype=np.float32), np.zeros(10, np.float32)
    kept = to_int8(np.concatenate([first, second]))
    assert kept[:256].tolist() == np.rint(first).tolist()
    assert kept[256:].tolist() == second.tolist()


def test_int8_of_bf16_keeps_multiples_of_a_power_of_two() -> None:
    values = np.linspace(-100, 100, 256, dtype=np.float32).astype(ml_dtypes.bfloat16)
    kept = to_int8(values)
    assert kept.dtype == ml_dtypes.bfloat16
    assert kept.tolist() == np.rint(values.astype(np.float32)).tolist()


@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16])
def test_what_is_computed_apart_for_int8_is_what_streamlink_rounds_to(dtype: type) -> None:
    values: Any = np.random.default_rng(1).standard_normal(1000, np.float32).astype(dtype)
    assert to_int8(values).tobytes() == Int8().rounded(values).tobytes()


def test_each_encoding_is_measured_with_the_weights_that_it_applies_to() -> None:
    every = {peer.removeprefix("streamlink, ") for peer in ENCODED["weights, F32"]}
    for kind, peers in ENCODED.items():
        left_out = every - {peer.removeprefix("streamlink, ") for peer in peers}
        assert left_out == set(NOT_FOR.get(kind, ()))


def test_weights_are_small_numbers_of_either_kind() -> None:
    for kind, item in (("weights, F32", 4), ("weights, BF16", 2)):
        payload = Payload(MIB, 4, kind)  # type: ignore[arg-type]
        model = payload.model()
        assert sum(each.nbytes for each in model.values()) == MIB
        assert model["layer_0000"].itemsize == item
        assert 0.019 < float(model["layer_0000"].astype(np.float32).std()) < 0.021
        assert digest(model) == digest(payload.model())


def test_a_computed_model_has_the_same_bytes_wherever_it_is_cut() -> None:
    payload = Payload(8 * MIB, 2, "computed")
    whole = b"".join(computed(payload).read(0, payload.size_bytes))
    pieces = [b"".join(computed(payload).read(at, 99_999)) for at in range(0, 2 * MIB, 99_999)]
    assert whole.startswith(b"".join(pieces))
    blocks = {whole[at : at + (1 << 16)] for at in range(0, len(whole), 1 << 16)}
    assert len(blocks) == len(whole) >> 16


def test_the_plan_of_peers_is_without_our_own_ways() -> None:
    own = {name for name, (peer, _) in found().items() if peer.is_own}
    encodings = {"zstd", "planes", "auto", "bf16", "fp16", "int8"}
    assert own == {COMPUTED, *(f"streamlink, {each}" for each in encodings)}
    assert own - {COMPUTED} <= {case.peer for case in plan_of(What.links, []).cases}


def test_the_large_plan_has_models_of_1_to_128_gb_and_says_how_long_that_takes() -> None:
    plan = large_plan()
    assert [case.payload.size_bytes // GB for case in plan.cases] == [1, 4, 16, 64, 128]
    left = seconds_left(left_to_do(plan, [], Here()), [])
    assert plan.runs * 213 <= left < 3600


@pytest.mark.processes
@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("case", encoded_cases("200Mbit,2ms", 1), ids=str)
def test_a_model_of_weights_arrives_and_encodings_send_less(case: object) -> None:
    from benchmarks.links.cases import Case

    assert isinstance(case, Case)
    run = measure(case)
    assert not run.error
    assert run.wire_bytes is not None
    share = run.wire_bytes / case.payload.size_bytes
    most = {
        "streamlink, planes": 0.97,
        "streamlink, bf16": 0.55,
        "streamlink, fp16": 0.55,
        "streamlink, int8": 1.2 / case.payload.item_bytes,
    }
    assert share < most.get(case.peer, 1.05)


@pytest.mark.processes
@pytest.mark.slow
@pytest.mark.timeout(300)
def test_computed_models_are_kept_and_shown_beside_the_others(tmp_path: Path) -> None:
    done = links("links", "--large", "--small", "--size", "4MB", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "Computed models over loopback" in done.stdout
    [run] = read(tmp_path / "links.jsonl")
    assert (run.case.peer, run.case.payload.size_bytes, run.error) == (COMPUTED, 4 * 10**6, "")


@pytest.mark.processes
@pytest.mark.slow
@pytest.mark.timeout(300)
def test_large_models_are_for_links(tmp_path: Path) -> None:
    done = links("peers", "--large", folder=tmp_path)
    assert done.returncode == 2
    assert "--large is for links" in " ".join(done.stderr.replace("│", " ").split())
