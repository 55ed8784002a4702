"""Which of the connected clients a round asks: all, a fraction, or what a function says.

A choice depends on the round's number and on what is known of the clients (``clients``). The ledger
records it before any client is asked, so a round that is resumed asks the same ones, whoever is
back by then; only where too few of them are, it chooses anew.
"""

from __future__ import annotations

import hashlib
import logging
import math
from collections.abc import Callable, Collection, Sequence

from pydantic import Field

from streamlink.config import RoundConfig
from streamlink.errors import RoundError
from streamlink.rounds.aggregate.named import NamedSettings, named_of
from streamlink.rounds.clients import ClientRecord
from streamlink.rounds.ledger import Ledger

__all__ = [
    "CHOICES",
    "Choice",
    "Everyone",
    "Fraction",
    "choice_of",
    "chosen_by",
    "chosen_once",
    "require_choosable",
]

logger = logging.getLogger("streamlink.rounds")

Choice = Callable[[int, Sequence[ClientRecord]], Collection[ClientRecord | str]]
"""``choice(number, clients)`` returns which of ``clients`` round ``number`` asks, or their names.

``clients`` are those that are connected, in the order of their names.
"""


class Everyone(NamedSettings):
    """All clients that are connected."""

    name = "all"

    def __call__(self, number: int, clients: Sequence[ClientRecord]) -> Collection[ClientRecord]:
        """Return all of them."""
        return clients


class Fraction(NamedSettings):
    """A fraction of the connected clients, drawn anew for each round."""

    name = "fraction"

    share: float = Field(gt=0, le=1)
    """How many of the connected clients are asked (ratio); rounded up."""
    least: int = Field(default=1, ge=1)
    """At least so many are asked, if they are connected (count)."""
    seed: int = 0
    """Number of the draw: another one draws other clients."""

    def __call__(self, number: int, clients: Sequence[ClientRecord]) -> Collection[ClientRecord]:
        """Return those that are drawn."""
        count = max(self.least, math.ceil(self.share * len(clients)))
        # Highest random weight (rendezvous hashing): one client more or less changes the draw by
        # one client at most, and no generator's state has to be kept.
        return sorted(clients, key=lambda each: self._lot(number, each.name))[:count]

    def _lot(self, number: int, name: str) -> bytes:
        return hashlib.sha256(f"{self.seed}:{number}:{name}".encode()).digest()


CHOICES = {each.name: each for each in (Everyone, Fraction)}
"""Every choice, by the name that ``RoundConfig.choose`` takes."""


def choice_of(text: str) -> Choice:
    """Return the choice of a text such as ``"all"`` or ``"fraction:share=0.1,seed=7"``.

    Raises:
        ValueError: there is no such choice, or it has no such setting; names those there are.
    """
    choice: Choice = named_of(text, CHOICES, "choice of clients")
    return choice


def require_choosable(choice: Choice, rules: RoundConfig) -> None:
    """Raise ``ValueError`` where the settings of a round leave nothing to choose."""
    if rules.duplex_bytes and not isinstance(choice, Everyone):
        raise ValueError(
            "duplex rounds send the next model to the clients of this round, before the clients of "
            "the next are chosen; leave out duplex_bytes, or choose all"
        )


def chosen_by(choice: Choice, number: int, clients: Sequence[ClientRecord]) -> frozenset[str]:
    """Return the names of those of ``clients`` that round ``number`` asks.

    Raises:
        RoundError: the choice raised an error, or returned a name that is not among them.
    """
    known = [each.name for each in clients]
    try:
        chosen = frozenset(
            each.name if isinstance(each, ClientRecord) else each
            for each in choice(number, clients)
        )
    except Exception as error:
        raise RoundError(f"the choice of clients for round {number} failed: {error!r}") from error
    if unknown := sorted(map(str, chosen.difference(known))):
        raise RoundError(
            f"round {number} was to ask {', '.join(unknown)}, and connected are "
            f"{', '.join(known) or 'no clients'}; return some of the clients that were given"
        )
    return chosen


def chosen_once(
    choice: Choice, ledger: Ledger | None, number: int, clients: Sequence[ClientRecord], least: int
) -> frozenset[str]:
    """Return the names of those that round ``number`` asks, and record them.

    An earlier server may have begun this round: it continues with the clients it chose. Where too
    few of them are back, a round that asked them again would fail as often as its job is resumed.

    Args:
        choice: of the job.
        ledger: of the job; None: nothing is recorded.
        number: of the round.
        clients: those that are connected, or whose updates are here, after the wait.
        least: how many updates the round needs (count).

    Raises:
        RoundError: see ``chosen_by``.
        StoreError: the ledger cannot be written.
    """
    if ledger is None:
        return chosen_by(choice, number, clients)
    names, before = [each.name for each in clients], ledger.chosen(number)
    if before is not None:
        if len(before.intersection(names)) >= least:
            return before
        logger.warning(
            "round %d had chosen %s, and connected are %s: fewer of those than min_clients=%d, so "
            "clients are chosen anew",
            number, ", ".join(sorted(before)), ", ".join(names) or "none", least,
        )  # fmt: skip
    chosen = chosen_by(choice, number, clients)
    ledger.choose(number, chosen)
    return chosen
