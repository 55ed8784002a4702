"""What credit costs of a receiver's bandwidth limit.

Credit counts the bytes of a model, the limit those that travel, and encodings make these fewer. A
receiver does not know by how much before they are here. So it pays for credit what it expects, by
the compression ratio of what has arrived lately, and settles when the bytes are here: what they
cost more is a debt, and nothing is granted until that is made up for. Without encodings nothing is
ever left to settle.
"""

from __future__ import annotations

from math import ceil

__all__ = ["LARGEST_RATIO", "CreditCost"]

LARGEST_RATIO = 4.0
"""What is promised and not here may be so many times as much as without encodings. If none of it
shrinks, most of it arrives unpaid; ``largest_ratio`` keeps that within what may be owed."""

_STEPS = 4
"""The ratio is a multiple of 1 / ``_STEPS``: parts stay multiples of the size of an element."""

_LATELY = 4
"""What has arrived lately is so many times what may be promised without encodings: 2 s of the limit
where nothing shrinks, and less where much does."""


def largest_ratio(owed: float, ahead: int) -> float:
    """Return the highest ratio at which a receiver comes to owe no more than it may.

    Args:
        owed: what it may owe at most (bytes).
        ahead: how much it may have promised without encodings (bytes).
    """
    return min(1 + owed / max(1, ahead) * _STEPS // 1 / _STEPS, LARGEST_RATIO)


class CreditCost:
    """What one receiver has paid for, and what it still has to pay (bytes on the line)."""

    def __init__(self) -> None:
        self.ratio = 1.0
        """Bytes of the model that one byte on the line is expected to bring; at least 1."""
        self._largest = LARGEST_RATIO
        self._paid = 0  # for what is not here yet
        self._received = self._saved = 0  # what is settled
        self._arrived = self._travelled = 0  # lately

    def begin(self, offset: int, *, saved: int) -> None:
        """Pay from ``offset`` on; what is below is here, or was promised before there was a limit.

        Args:
            offset: in the model (bytes).
            saved: what encodings have saved until now (bytes).
        """
        self._received, self._saved, self._paid = offset, saved, 0

    def bound(self, ratio: float) -> None:
        """Expect no higher ratio from now on."""
        self._largest = ratio
        self.ratio = min(self.ratio, ratio)

    def of(self, nbytes: int) -> int:
        """Return what so many bytes of the model are expected to cost."""
        return nbytes if self.ratio == 1 else ceil(nbytes / self.ratio)

    def pay(self, cost: int) -> int:
        """Note that ``cost`` was paid; returns for how many bytes of the model."""
        self._paid += cost
        return int(cost * self.ratio)

    def settle(self, received: int, *, saved: int, allowed: int, ahead: int) -> int:
        """Return what bytes have cost beyond what was paid for them; negative: less.

        Args:
            received: up to where everything is here (bytes).
            saved: what encodings have saved of all that has arrived (bytes).
            allowed: up to where credit was paid for (bytes).
            ahead: how much may be promised without encodings (bytes).
        """
        arrived, outstanding = received - self._received, allowed - self._received
        newly_saved, self._saved = saved - self._saved, saved
        if arrived <= 0:  # promised before there was a limit, or requested again
            return 0
        travelled = max(0, arrived - newly_saved)
        paid = self._paid * min(arrived, outstanding) // max(1, outstanding)
        self._paid -= paid
        self._received = received
        self._learn(arrived, travelled, _LATELY * ahead)
        return travelled - paid

    def _learn(self, arrived: int, travelled: int, lately: int) -> None:
        self._arrived += arrived
        self._travelled += travelled
        ratio = self._arrived / max(1, self._travelled)
        self.ratio = min(max(1.0, ratio * _STEPS // 1 / _STEPS), self._largest)
        while self._arrived > max(1, lately):
            self._arrived //= 2
            self._travelled //= 2
