"""Peers move a small array unharmed; runs are judged by what the claim says."""

from __future__ import annotations

import pytest

from benchmarks.arrays import Load, MiB, make_source
from benchmarks.bulk import STREAMLINK, is_met
from benchmarks.peers import FLIGHT, PLAIN, PLAIN_TUNED, TCP, Peer, Run, measure
from benchmarks.processes import Usage
from benchmarks.side_by_side import ratios_to

ODD = 3 * MiB + 8 * 1001  # no multiple of the message size: the last message is short


@pytest.mark.processes
@pytest.mark.parametrize("peer", [PLAIN, PLAIN_TUNED, FLIGHT, TCP], ids=lambda peer: peer.name)
def test_every_peer_moves_an_odd_number_of_bytes(peer: Peer) -> None:
    if peer.missing:
        pytest.skip(peer.missing)
    run = measure(peer, Load(total_bytes=ODD, message_bytes=MiB))
    assert run.seconds > 0
    assert run.total_bytes == ODD


@pytest.mark.processes
def test_plain_grpc_with_acks_moves_the_same_bytes() -> None:
    load = Load(total_bytes=ODD, message_bytes=MiB, window_bytes=2 * MiB, acks=True)
    assert measure(PLAIN, load).total_bytes == ODD


def test_a_peer_without_its_library_says_so() -> None:
    absent = Peer("absent", "m:receiver", "m:sender", needs="no_such_library.part")
    assert absent.missing == "absent skipped: no_such_library.part is not installed"


def test_a_load_survives_the_pipe() -> None:
    load = Load(options=(("grpc.http2.bdp_probe", 0),), tensors=64)
    assert Load.from_json(load.as_json()) == load


def test_no_two_words_of_the_source_are_alike() -> None:
    words = make_source(80_000).view("u8")
    assert len(set(words.tolist())) == 10_000


def _runs(rate: float) -> list[Run]:
    used = Usage(0, 0, 0.0)
    return [Run(1000, 1000 / rate, used, used) for _ in range(5)]


@pytest.mark.parametrize(("plain_rate", "met"), [(2.0, True), (4.0, False)])
def test_the_claim_is_judged_against_plain_grpcio_as_it_comes(plain_rate: float, met: bool) -> None:
    runs = {PLAIN.name: _runs(plain_rate), PLAIN_TUNED.name: _runs(9.0)}
    ratios = ratios_to(STREAMLINK, {STREAMLINK.name: _runs(3.0), **runs})
    assert is_met(ratios) is met
