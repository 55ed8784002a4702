"""A server that is killed and started again with ``--resume``; its clients join it again.

The server is a process, its clients are threads here; all are joined by real gRPC on one port.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from types import TracebackType
from typing import Self

import pytest

import streamlink as sl
from streamlink.errors import StoreError
from streamlink.executors import TaskOutcome
from streamlink.link import Assignment
from streamlink.stores import ArrayModel
from streamlink.stores.checked_json import decode_checked_json
from tests.support.forkserver import Child, ForkServer
from tests.support.peers import ODD, WAIT, Array, config, initial, trained
from tests.support.ports import KeptPort
from tests.support.round_points import NOWHERE, RoundPoint

pytestmark = pytest.mark.processes

# A killed server resets its connections, and its successor knows none of its sessions: none of this
# waits for a timeout. Short ones would end the session of a site that a busy machine starves, or
# the site before its server listens.
LINK = config(
    heartbeat_interval=0.2,
    connect_timeout=WAIT,
    session_timeout=WAIT,
    reconnect_timeout=WAIT,
    rejoin_timeout=WAIT,
)
SETTINGS = (
    *("--set", "stream.chunk_bytes=4KiB", "--set", "stream.min_chunk_bytes=1KiB"),
    *("--set", "stream.window_bytes=16KiB", "--set", "stream.initial_window_bytes=8KiB"),
    *("--set", "timeouts.heartbeat_interval=0.2", "--set", f"timeouts.session_timeout={WAIT}"),
    *("--set", f"timeouts.reconnect_timeout={WAIT}", "--num-rounds", "2"),
)
JUDGED = {"evaluate_every": 1, "best_metric": "accuracy"}
LAST = 1


class Site:
    """A client in a thread: pure work, and a list of the rounds it was asked for."""

    def __init__(self, address: str, number: int) -> None:
        self.asked: list[int] = []
        self.opens, self.reached = threading.Event(), threading.Event()
        self.opens.set()
        self.held_from = LAST
        self.error: BaseException | None = None
        self.evaluated: list[int] = []
        self._work = sl.StreamingExecutor(self._function, evaluate=self._evaluate)
        self._train = trained(number)
        self._thread = threading.Thread(
            target=self._run, args=(address, f"site-{number}"), daemon=True
        )

    def start(self) -> None:
        """Dial the server."""
        self._thread.start()

    def execute(self, task: sl.Task, assignment: Assignment) -> TaskOutcome:
        self.asked.append(task.round)
        return self._work.execute(task, assignment)

    def evaluate(self, task: sl.Task, assignment: Assignment) -> object:
        self.evaluated.append(task.round)
        return self._work.evaluate(task, assignment)

    def join(self) -> None:
        """Wait until the server has said goodbye."""
        self._thread.join(WAIT)
        assert not self._thread.is_alive()
        if self.error is not None:
            raise self.error

    def _function(self, tensor: sl.TensorSpec, start: int, values: Array) -> Array:
        if tensor.name == "bf16" and self.asked[-1] >= self.held_from:
            self.reached.set()
            self.opens.wait(WAIT)
        return self._train(tensor, start, values)

    def _evaluate(self, model: dict[str, Array], task: sl.Task) -> dict[str, float]:
        return {"accuracy": 1.0 - task.round}

    def _run(self, address: str, name: str) -> None:
        try:
            with sl.Client(address, name, self, LINK) as client:
                client.run()
        except BaseException as error:
            self.error = error


class Job:
    """A store, a server that may be killed, and two sites."""

    def __init__(
        self,
        forks: ForkServer,
        folder: Path,
        gather: str,
        *,
        is_judged: bool = False,
        aggregator: str = "mean",
        choose: str = "all",
        take_first: int = 0,
        is_chosen_by_facts: bool = False,
    ) -> None:
        self._choose, self._take_first = choose, take_first
        self._is_chosen_by_facts = is_chosen_by_facts
        are_all_asked = choose == "all" and not take_first and not is_chosen_by_facts
        self._least = 2 if are_all_asked else 1
        self._forks, self._folder, self._gather = forks, folder, gather
        self._aggregator = aggregator
        self._is_judged = is_judged
        self._port = KeptPort()  # while the server is dead, too
        self.address = self._port.address
        sl.copy_model(ArrayModel(initial()), sl.open_store(folder / "model").begin(ODD))
        self.sites = [Site(self.address, number) for number in (1, 2)]

    def doomed(self, point: RoundPoint) -> Child:
        """Start a server that dies there."""
        job = {
            "store": str(self._folder / "model"),
            "listen": self.address,
            "link": LINK.model_dump(mode="json"),
            "rules": {
                "gather": self._gather,
                "min_clients": self._least,
                "wait_for_clients": 2,
                "choose": self._choose,
                "take_first": self._take_first,
                "num_rounds": 2,
                "aggregator": self._aggregator,
                **(JUDGED if self._is_judged else {}),
            },
            "best": str(self._folder / "best") if self._is_judged else "",
            "spool": str(self._folder / "spool"),
            "state": str(self._folder / "state"),
            "is_chosen_by_facts": self._is_chosen_by_facts,
        }
        return self._forks.serve(point, job, self._folder / "server.log")

    def server(self, *words: object) -> Child:
        """Start the server, with ``--resume``."""
        command = ("server", "--store", self._folder / "model", "--listen", self.address)
        rules = ("--gather", self._gather, "--spool", self._folder / "spool", *SETTINGS)
        words = (*words, "--choose", self._choose, "--wait-for-clients", 2)
        words = (*words, "--take-first", self._take_first)
        words = (*words, "--set", f"rounds.min_clients={self._least}")
        words = (*words, "--aggregator", self._aggregator, "--state", self._folder / "state")
        if self._is_judged:
            settings = [f"--set=rounds.{name}={value}" for name, value in JUDGED.items()]
            words = (*words, *settings, "--best", self._folder / "best")
        log = self._folder / "server.log"
        return self._forks.start([*command, *rules, "--resume", *words], log)

    def join(self) -> None:
        """Start the sites."""
        for site in self.sites:
            site.start()

    def ended(self, server: Child) -> int | None:
        """Wait for the server's end; return its exit code."""
        return self._forks.wait(server, WAIT)

    def finish(self, server: Child) -> str:
        """Wait until all have ended well; return the digest of the model."""
        assert self.ended(server) == 0, (self.log, [site.error for site in self.sites])
        for site in self.sites:
            site.join()
        left = [*(self._folder / "spool").rglob("*"), *self._folder.rglob("*.part")]
        assert left == []
        with closing(sl.open_model(self._folder / "model")) as model:
            return sl.digest_of(model)

    def state(self) -> dict[str, str]:
        """Return the digest of each slot of the last state."""
        (step,) = (self._folder / "state").glob("step-2-*")
        found = {}
        for place in step.iterdir():
            with closing(sl.open_model(place)) as slot:
                found[place.name] = sl.digest_of(slot)
        return found

    @property
    def log(self) -> str:
        return (self._folder / "server.log").read_text()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for site in self.sites:
            site.opens.set()


@pytest.fixture(scope="module")
def forks() -> Iterator[ForkServer]:
    with ForkServer() as made:
        yield made


@pytest.fixture(scope="module")
def undisturbed(forks: ForkServer, tmp_path_factory: pytest.TempPathFactory) -> str:
    with Job(forks, tmp_path_factory.mktemp("undisturbed"), "lockstep") as job:
        job.join()
        return job.finish(job.server())


CELLS = [  # the states of the protocol are in ``test_kills``; these are what it cannot see
    (RoundPoint("aggregating", LAST), "spool"),
    (RoundPoint("computed", LAST), "spool"),
    (RoundPoint("intended", 0), "spool"),
    (RoundPoint("intended", LAST), "lockstep"),
    (RoundPoint("committed", 0), "spool"),
    (RoundPoint("committed", LAST), "lockstep"),
    (RoundPoint("between rounds", 0), "lockstep"),
    (RoundPoint("between rounds", 0), "spool"),
    (RoundPoint("all done"), "lockstep"),
]


@pytest.mark.parametrize(
    ("point", "gather"), CELLS, ids=[f"{each.point} {each.round} {way}" for each, way in CELLS]
)
def test_a_killed_server_ends_with_the_model_of_an_undisturbed_run(
    forks: ForkServer, undisturbed: str, tmp_path: Path, point: RoundPoint, gather: str
) -> None:
    with Job(forks, tmp_path, gather) as job:
        doomed = job.doomed(point)
        job.join()
        assert job.ended(doomed) == -9, job.log
        assert job.finish(job.server()) == undisturbed, job.log


HALF = "fraction:share=0.5,seed=3"


@pytest.fixture(scope="module")
def with_half(forks: ForkServer, tmp_path_factory: pytest.TempPathFactory) -> str:
    with Job(forks, tmp_path_factory.mktemp("half"), "spool", choose=HALF) as job:
        job.join()
        return job.finish(job.server())


@pytest.mark.parametrize("gather", ["lockstep", "spool"])
@pytest.mark.parametrize("number", [0, LAST])
@pytest.mark.parametrize("point", ["choosing", "offering"])
def test_a_server_that_is_killed_at_its_choice_makes_the_same_again(
    forks: ForkServer, with_half: str, tmp_path: Path, point: str, number: int, gather: str
) -> None:
    with Job(forks, tmp_path, gather, choose=HALF) as job:
        doomed = job.doomed(RoundPoint(point, number))
        job.join()
        assert job.ended(doomed) == -9, job.log
        assert job.finish(job.server()) == with_half, job.log


@pytest.fixture(scope="module")
def by_facts(forks: ForkServer, tmp_path_factory: pytest.TempPathFactory) -> str:
    with Job(forks, tmp_path_factory.mktemp("facts"), "spool", is_chosen_by_facts=True) as job:
        job.join()
        return job.finish(job.doomed(NOWHERE))


@pytest.mark.parametrize(
    ("point", "gather"),
    [
        (RoundPoint("computed", 0), "spool"),
        (RoundPoint("committed", 0), "lockstep"),
        (RoundPoint("between rounds", 0), "spool"),
        (RoundPoint("choosing", LAST), "lockstep"),
        (RoundPoint("offering", LAST), "lockstep"),
    ],
    ids=str,
)
def test_a_choice_by_facts_sees_after_a_kill_what_it_would_have_seen(
    forks: ForkServer, by_facts: str, tmp_path: Path, point: RoundPoint, gather: str
) -> None:
    with Job(forks, tmp_path, gather, is_chosen_by_facts=True) as job:
        doomed = job.doomed(point)
        job.join()
        assert job.ended(doomed) == -9, job.log
        assert job.finish(job.doomed(NOWHERE)) == by_facts, job.log
        # Nobody had trained before the first round, and only site-1 before the second.
        assert [set(site.asked) for site in job.sites] == [{0}, {1}], job.log


def whole_slots(state: Path, step: int) -> list[str]:
    """Return the slots of a step whose models can be opened."""
    (place,) = state.glob(f"step-{step}-*")
    found = []
    for slot in place.iterdir():
        with suppress(StoreError), closing(sl.open_model(slot)):
            found.append(slot.name)
    return found


Outcome = tuple[str, dict[str, str]]


@pytest.fixture(scope="module")
def with_adam(forks: ForkServer, tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    folder = tmp_path_factory.mktemp("adam")
    with Job(forks, folder, "lockstep", aggregator="fedadam") as job:
        job.join()
        return job.finish(job.server()), job.state()


@pytest.mark.parametrize("gather", ["lockstep", "spool"])
@pytest.mark.parametrize("number", [0, LAST])
@pytest.mark.parametrize(
    "point",
    [
        *("offering", "aggregating", "computed", "between slots", "intended", "committed"),
        "between rounds",
    ],
)
def test_a_killed_server_ends_with_the_state_of_an_undisturbed_run(
    forks: ForkServer, with_adam: Outcome, tmp_path: Path, point: str, number: int, gather: str
) -> None:
    with Job(forks, tmp_path, gather, aggregator="fedadam") as job:
        doomed = job.doomed(RoundPoint(point, number))
        job.join()
        assert job.ended(doomed) == -9, job.log
        if point == "between slots":
            assert whole_slots(tmp_path / "state", number + 1) == ["momentum"]
        assert (job.finish(job.server()), job.state()) == with_adam, job.log
    assert set(with_adam[1]) == {"momentum", "second_moment"}


@pytest.mark.parametrize("point", ["stored", "arrived"])
def test_an_update_that_was_spooled_whole_is_not_asked_for_again(
    forks: ForkServer, undisturbed: str, tmp_path: Path, point: str
) -> None:
    with Job(forks, tmp_path, "spool") as job:
        doomed = job.doomed(RoundPoint(point, LAST))
        one, other = job.sites
        one.opens = other.reached  # so the other is at work when the server has this one's update
        other.opens.clear()
        job.join()
        assert job.ended(doomed) == -9, job.log
        other.opens.set()
        assert job.finish(job.server()) == undisturbed
    assert one.asked == [0, 1]
    assert other.asked == [0, 1, 1]
    assert "the update of site-1" in job.log


def of_one_site() -> str:
    """Return the digest after two rounds in which the update of the first site alone counts."""
    arrays, train = initial(), trained(1)
    for tensor in ODD.tensors:
        for _ in range(2):
            values = train(tensor, 0, arrays[tensor.name].ravel())
            arrays[tensor.name] = values.reshape(tensor.shape)
    return sl.digest_of(ArrayModel(arrays))


@pytest.mark.parametrize("point", ["stored", "aggregating", "computed", "intended", "committed"])
def test_a_killed_server_that_took_the_first_update_counts_no_other(
    forks: ForkServer, tmp_path: Path, point: str
) -> None:
    with Job(forks, tmp_path, "spool", take_first=1) as job:
        doomed = job.doomed(RoundPoint(point, LAST))
        one, other = job.sites
        other.held_from = 0
        other.opens.clear()
        job.join()
        assert job.ended(doomed) == -9, job.log
        other.opens.set()  # its update could be whole in the resumed round, if that asked for it
        assert job.finish(job.server()) == of_one_site(), job.log
    assert one.asked == [0, 1]


@pytest.mark.parametrize("point", ["between rounds", "evaluating", "judged", "copied", "kept"])
def test_the_best_model_survives_a_server_that_is_killed_while_it_is_judged(
    forks: ForkServer, undisturbed: str, tmp_path: Path, point: str
) -> None:
    with Job(forks, tmp_path, "lockstep", is_judged=True) as job:
        doomed = job.doomed(RoundPoint(point, 0))
        job.join()
        assert job.ended(doomed) == -9, job.log
        assert job.finish(job.server()) == undisturbed, job.log
        with closing(sl.open_model(tmp_path / "best")) as best:
            of_first_round = sl.digest_of(best)
        standing = decode_checked_json((tmp_path / "model.rounds.json").read_bytes(), tmp_path)[
            "standing"
        ]
    # The second model is worse: only the first may be there, although no server has it any more.
    assert (standing["round"], standing["digest"]) == (0, of_first_round)
    assert of_first_round != undisturbed
