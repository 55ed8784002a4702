"""Put streamlink under a framework of your own: its rounds, its callbacks, its trainer.

*Acme* is a small framework that knows nothing of streamlink. ``run_job`` is what is between the
two: it admits a job by its memory, runs the rounds one by one and lets Acme decide after each
whether there is another, hands it the facts of each transfer, sends small facts both ways, and
clips what comes and adds noise to it.

    python examples/embedding/framework.py
"""

from __future__ import annotations

import argparse
import hashlib
import sys
import threading
from collections import Counter
from typing import Any

import numpy as np
import numpy.typing as npt

import streamlink
from streamlink.config import parse_size
from streamlink.filters import FilterContext, FilterFactory, on_floats
from streamlink.model import RangeFunction
from streamlink.stores import MemoryStore

Array = npt.NDArray[Any]
WIDTH, SITES = 40, 2
LINK = streamlink.LinkConfig(stream=streamlink.StreamConfig(window_bytes="8MiB"))

# --- Acme, the framework ----------------------------------------------------


class AcmeTrainer:
    """Fits ``y = x @ w`` to the samples of one site by gradient descent."""

    def __init__(self, seed: int) -> None:
        generator = np.random.default_rng(seed)
        self.x = generator.standard_normal((200 * seed, WIDTH)).astype(np.float32)
        self.y = self.x @ np.linspace(-0.5, 0.5, WIDTH, dtype=np.float32)

    def fit(self, w: Array, rate: float) -> float:
        """Train ``w`` in place; return the loss it came with."""
        error = self.x @ w - self.y
        w -= rate * (self.x.T @ error) / len(self.y)
        return float(np.mean(error**2))


class AcmeCallback:
    """What Acme's users write to hear how their job goes."""

    def __init__(self) -> None:
        self.events: Counter[str] = Counter()
        self._transfers: list[streamlink.TransferFacts] = []

    def on_round(self, number: int, loss: float, sites: list[str]) -> bool:
        """Return whether the model is good enough."""
        print(f"round {number}: loss {loss:.4f}; {', '.join(sites)}")
        return loss < 0.1

    def on_transfer(self, facts: streamlink.TransferFacts) -> None:
        """Keep what each transfer was; called from several threads."""
        self._transfers.append(facts)

    @property
    def moved(self) -> int:
        """The bytes of all transfers that came to their end."""
        return sum(each.bytes for each in self._transfers if each.error is None)


# --- what is between the two ------------------------------------------------


def run_job(acme: AcmeCallback, rounds: int, memory_bytes: int) -> MemoryStore:
    """Run rounds until Acme is content, and return the store with the model."""
    store = MemoryStore({"w": np.zeros(WIDTH, np.float32)})
    rate = 0.5
    with streamlink.Server("127.0.0.1:0", LINK, on_transfer=acme.on_transfer) as server:
        job = streamlink.ScatterAndGather(
            server,
            store,
            streamlink.RoundConfig(min_clients=SITES),
            filters_up=[clip, FilterFactory(noise)],
            on_event=lambda event: acme.events.update([event.kind.value]),
            metadata=lambda attempt, peer_name: {"rate": str(rate)},
        )
        if job.peak_bytes(SITES) > memory_bytes:
            sys.exit(f"not admitted: the job may take {job.peak_bytes(SITES) >> 20} MiB")
        print(f"admitted: at most {job.peak_bytes(SITES) >> 20} MiB for {SITES} sites")
        for number in range(1, SITES + 1):
            threading.Thread(target=take_part, args=(server.address, number)).start()
        server.wait_for_peers(SITES, 30)
        for number in range(rounds):
            report = job.run_round(number)
            sites = [f"{site} on {facts['host']}" for site, facts in report.metadata.items()]
            if acme.on_round(number, report.metrics["loss"], sites):
                break
            rate *= 0.95
    return store


def take_part(address: str, number: int) -> None:
    """Have Acme's trainer do what the server asks for, until it says goodbye."""
    trainer = AcmeTrainer(number)

    def train(model: dict[str, Array], task: streamlink.Task) -> streamlink.TaskResult:
        loss = trainer.fit(model["w"], float(task.metadata["rate"]))
        facts = {"host": f"node-{number}"}
        return streamlink.TaskResult(len(trainer.y), {"loss": loss}, facts)

    executor = streamlink.WholeExecutor(train, returns="differences")
    with streamlink.Client(address, f"site-{number}", executor, LINK) as client:
        client.run()


@on_floats
def clip(tensor: streamlink.TensorSpec, start: int, values: Array) -> Array:
    """Bound what one site may say of one element; integers are counts and pass."""
    return np.clip(values, -0.25, 0.25)


def noise(context: FilterContext) -> RangeFunction:
    """Return the function that adds this site's noise of this round.

    A range may be asked for again and be cut elsewhere, so noise is drawn for whole blocks, each
    from a seed of its own. Where it is to hide something, the seed needs a secret, too.
    """
    block = 4096

    @on_floats
    def add(tensor: streamlink.TensorSpec, start: int, values: Array) -> Array:
        first, last = start // block, (start + len(values) - 1) // block
        seeds = [
            seed_of(context.attempt, context.peer_name, tensor.name, at)
            for at in range(first, last + 1)
        ]
        drawn = [np.random.default_rng(seed).standard_normal(block) for seed in seeds]
        here = np.concatenate(drawn)[start - first * block :][: len(values)]
        return (values + 1e-4 * here).astype(values.dtype)

    return add


def seed_of(*facts: object) -> int:
    return int.from_bytes(hashlib.sha256(repr(facts).encode()).digest()[:8], "little")


def main() -> None:
    options = argparse.ArgumentParser(description="A framework with streamlink under it.")
    options.add_argument("--rounds", type=int, default=20, help="at most")
    options.add_argument("--memory", default="1GiB", help="that the server may take")
    given = options.parse_args()
    acme = AcmeCallback()
    store = run_job(acme, given.rounds, parse_size(given.memory))
    print("events:", ", ".join(f"{what} {count}" for what, count in acme.events.items()))
    print(f"transfers told to Acme: {acme.moved} bytes")
    print(f"model: {streamlink.digest_of(store)}")


if __name__ == "__main__":
    main()
