"""Which clients a round asks: a function of its number and of them, kept by the ledger."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamlink.config import RoundConfig
from streamlink.errors import QuorumNotReached, RoundError
from streamlink.rounds.choice import CHOICES, Choice, Fraction, choice_of, chosen_by
from streamlink.rounds.clients import ClientRecord
from streamlink.rounds.controller import ScatterAndGather
from streamlink.rounds.events import EventKind, RoundEvent
from streamlink.rounds.report import RoundReport
from tests.support.jobs import Job
from tests.support.peers import WAIT, executor

NAMES = [f"site-{number}" for number in range(20)]


def asked(choice: Choice, number: int, names: Sequence[str]) -> frozenset[str]:
    return chosen_by(choice, number, [ClientRecord(name) for name in names])


@pytest.mark.parametrize(
    ("share", "least", "count"),
    [(0.1, 1, 2), (0.11, 1, 3), (1.0, 1, 20), (0.1, 5, 5), (0.1, 99, 20)],
)
def test_a_fraction_is_rounded_up_and_has_a_least_number(
    share: float, least: int, count: int
) -> None:
    assert len(asked(Fraction(share=share, least=least), 0, NAMES)) == count


@given(st.permutations(NAMES), st.integers(0, 99), st.integers(0, 99))
def test_the_draw_does_not_depend_on_the_order_in_which_clients_came(
    names: list[str], number: int, seed: int
) -> None:
    draw = Fraction(share=0.3, seed=seed)
    assert asked(draw, number, names) == asked(draw, number, NAMES)


@given(st.integers(0, 99), st.sampled_from(NAMES))
def test_one_client_less_changes_the_draw_by_one(number: int, gone: str) -> None:
    draw = Fraction(share=0.3)
    left = asked(draw, number, [name for name in NAMES if name != gone])
    assert len(left - asked(draw, number, NAMES)) <= 1


def test_rounds_and_seeds_have_draws_of_their_own_and_every_client_its_share() -> None:
    draws = [
        asked(Fraction(share=0.25, seed=seed), n, NAMES) for seed in (0, 1) for n in range(400)
    ]
    assert len(set(draws)) > 700
    for name in NAMES:
        assert 140 < sum(name in draw for draw in draws) < 260  # 200 of 800; 5 standard deviations


def test_a_draw_is_the_same_in_every_version() -> None:
    drawn = sorted(asked(choice_of("fraction:share=0.2,seed=7"), 3, NAMES))
    assert drawn == DRAWN


DRAWN = ["site-11", "site-15", "site-7", "site-9"]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("some", "no choice of clients is called 'some'; there are: 'all', 'fraction'"),
        ("fraction", "share: Field required"),
        ("fraction:share=0", "share: "),
        ("fraction:share=0.5,least=0", "least: "),
    ],
)
def test_wrong_settings_are_refused_at_once(text: str, why: str) -> None:
    with Job() as job, pytest.raises(ValueError, match=why):
        ScatterAndGather(job.federation.server, job.store, RoundConfig(choose=text))


def test_a_choice_in_duplex_rounds_is_refused() -> None:
    rules = RoundConfig(choose="fraction:share=0.5", duplex_bytes=1 << 20)
    with Job() as job, pytest.raises(ValueError, match="leave out duplex_bytes, or choose all"):
        ScatterAndGather(job.federation.server, job.store, rules)


def test_the_text_of_a_choice_makes_the_same_one() -> None:
    assert set(CHOICES) == {"all", "fraction"}
    assert choice_of(str(Fraction(share=0.25, seed=3))) == Fraction(share=0.25, seed=3)


@pytest.mark.parametrize("gather", ["lockstep", "spool"])
def test_only_those_that_are_chosen_are_asked(gather: str, tmp_path: Path) -> None:
    draw = Fraction(share=0.5, seed=2)
    expected = [asked(draw, number, NAMES[:4]) for number in range(3)]
    extras: dict[str, Any] = {"spool": tmp_path / "spool", "choose": draw}
    with Job(extras=extras, gather=gather, num_rounds=3) as job:
        for number in range(4):
            job.site(number, executor(number))
        job.start(4)
        assert [report.weights.keys() for report in job.reports()] == expected


@pytest.mark.parametrize("gather", ["lockstep", "spool"])
def test_a_resumed_round_asks_those_that_were_chosen(gather: str, tmp_path: Path) -> None:
    """The second server is given another choice: what the ledger has is stronger."""
    offered: list[str] = []

    def fail(event: RoundEvent) -> None:
        if event.kind is EventKind.TASK_OFFERED:
            offered.append(event.peer_name)
        if event.kind is EventKind.BEFORE_PERSIST:
            raise RuntimeError("the server ends here")

    place: Any = {"ledger": tmp_path / "ledger", "resume": True, "spool": tmp_path / "spool"}
    rules = RoundConfig(min_clients=2, num_rounds=1, gather=gather)
    with Job() as job:
        for number in range(4):
            job.site(number, executor(number))
        server = job.federation.server
        server.wait_for_peers(4, WAIT)
        with pytest.raises(RuntimeError):
            ScatterAndGather(
                server,
                job.store,
                rules,
                choose=lambda _, clients: clients[1:3],
                on_event=fail,
                **place,
            ).run()
        (report,) = ScatterAndGather(
            server, job.store, rules, choose=lambda _, clients: clients[:2], **place
        ).run()
    assert set(offered) == {"site-1", "site-2"} == report.weights.keys()


def test_a_resumed_round_chooses_anew_where_those_that_were_chosen_are_gone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    place: Any = {"ledger": tmp_path / "ledger", "resume": True}
    rules = RoundConfig(min_clients=2, num_rounds=1, wait_for_clients_seconds=0.5)
    with Job() as job:
        sites = [job.site(number, executor(number)) for number in range(4)]
        server = job.federation.server
        server.wait_for_peers(4, WAIT)

        def leave(event: RoundEvent) -> None:
            if event.kind is EventKind.TASK_OFFERED:
                raise RuntimeError("the server ends here")

        def run(**more: Any) -> list[RoundReport]:
            return ScatterAndGather(server, job.store, rules, **more, **place).run()

        with pytest.raises(RuntimeError):
            run(choose=lambda _, clients: clients[1:3], on_event=leave)
        sites[1].leave()
        job.federation.wait_left("site-1")
        (report,) = run(choose=lambda _, clients: clients[:2])
    assert sorted(report.weights) == ["site-0", "site-2"]
    assert "had chosen site-1, site-2, and connected are site-0, site-2, site-3" in caplog.text


@pytest.mark.parametrize("gather", ["lockstep", "spool"])
def test_a_choice_sees_what_is_known_of_the_clients(gather: str, tmp_path: Path) -> None:
    seen: list[dict[str, ClientRecord]] = []

    def choose(number: int, clients: Sequence[ClientRecord]) -> list[ClientRecord]:
        seen.append({each.name: each for each in clients})
        # The two that were asked least often; of those, the first by name.
        return sorted(clients, key=lambda each: (each.rounds, each.name))[:2]

    extras: dict[str, Any] = {"spool": tmp_path / "spool", "choose": choose}
    with Job(extras=extras, gather=gather, num_rounds=3) as job:
        for number in range(4):
            work = executor(number, weight=number + 1.0)
            job.site(number, work)
        job.start(4)
        reports = job.reports()
    first, second, third = ["site-0", "site-1"], ["site-2", "site-3"], ["site-0", "site-1"]
    assert [sorted(each.weights) for each in reports] == [first, second, third]
    assert seen[0] == {name: ClientRecord(name) for name in NAMES[:4]}
    known = seen[2]
    assert [each.rounds for each in known.values()] == [1, 1, 1, 1]
    assert [each.last_round for each in known.values()] == [0, 0, 1, 1]
    assert [each.weight for each in known.values()] == [1.0, 2.0, 3.0, 4.0]
    assert all(each.seconds > 0 and not each.failure for each in known.values())
    assert {name: known[name].metrics for name in first} == reports[0].client_metrics


def raising(number: int, clients: Sequence[ClientRecord]) -> Collection[str]:
    raise KeyError("no such cohort")


@pytest.mark.parametrize(
    ("choice", "error", "why"),
    [
        (raising, RoundError, "the choice of clients for round 0 failed: KeyError"),
        (lambda _, clients: [7], RoundError, "was to ask 7, and connected are site-0"),
        (lambda _, clients: ["nobody"], RoundError, "was to ask nobody, and connected are site-0"),
        (lambda _, clients: clients[:1], QuorumNotReached, "1 of 2 clients left"),
    ],
)
def test_a_choice_that_cannot_be_used_fails_the_round(
    choice: Any, error: type[RoundError], why: str
) -> None:
    with Job(extras={"choose": choice}) as job:
        for number in range(2):
            job.site(number, executor(number))
        job.start(2)
        failure = job.failure()
        assert isinstance(failure, error)
        assert why in str(failure)
        job.assert_unchanged()
