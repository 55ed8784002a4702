"""The two lines to a server of objects, which can be cut: of its sessions, and of the bytes.

Clients dial the port of the bytes at the host of the session, under the number that the server
names. So the lines have the server's two numbers, at another address of the loopback.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial

from benchmarks.closing import Closing
from benchmarks.relay import Direction, Relay, Step

__all__ = ["Lines"]

SERVER, CLIENTS = "127.0.0.2", "127.0.0.1"
TRIES = 20

Cut = tuple[int, Direction]
"""After how many bytes of a direction a line is cut."""


class Lines(Closing):
    """Carries what is dialed at ``address`` to a server that is to listen at ``behind``.

    Attributes:
        address: where clients dial, ``HOST:FIRST-LAST``: the port of sessions, and that of bytes.
        behind: where the server has to listen, in the same way.
        port: of sessions, the same in both.
    """

    def __init__(self) -> None:
        with ExitStack() as stack:
            self._both = _pair(stack)
            self._opened = stack.pop_all()
        self._hit: list[Relay] = []
        self._left: set[Cut] = set()
        self.port = self._both[0].port
        ports = f"{self.port}-{self.port + 1}"
        self.address, self.behind = f"{CLIENTS}:{ports}", f"{SERVER}:{ports}"

    def reset_after(self, *nbytes: Cut) -> None:
        """Reset the line that models are on after so many bytes, counted from now."""
        self._plan(nbytes, self._reset)

    def cut_after(self, nbytes: int) -> None:
        """Cut both lines after so many bytes to the clients, until ``mend``."""
        self._plan([(nbytes, "down")], self._cut)

    def mend(self) -> None:
        """Take new connections again."""
        for each in self._both:
            each.allow()

    @property
    def resets(self) -> int:
        """How often a line was reset or cut.

        A transfer may go on over the other line, which then comes to the same number of bytes: so
        this can be more than was planned, and yet a planned one be ``missed``.
        """
        return len(self._hit)

    @property
    def missed(self) -> list[Cut]:
        """What was planned, and has happened on neither line."""
        return sorted(self._left)

    def close(self) -> None:
        """End both lines."""
        self._opened.close()

    def _plan(self, cuts: Sequence[Cut], action: Callable[[Cut, Relay], None]) -> None:
        self._left |= set(cuts)
        steps = [
            Step(action=partial(action, cut), after_bytes=cut[0], direction=cut[1]) for cut in cuts
        ]
        for each in self._both:
            each.play(steps)

    def _reset(self, cut: Cut, line: Relay) -> None:
        self._hit.append(line)
        self._left.discard(cut)
        line.reset()

    def _cut(self, cut: Cut, line: Relay) -> None:
        self._hit.append(line)
        self._left.discard(cut)
        for each in self._both:
            each.refuse()
            each.reset()


def _pair(stack: ExitStack) -> Sequence[Relay]:
    """Return lines with two neighbouring numbers."""
    for _ in range(TRIES):
        first = Relay(SERVER, 1, listen=(CLIENTS, 0))
        try:
            second = Relay(SERVER, 1, listen=(CLIENTS, first.port + 1))
        except (OSError, OverflowError):  # somebody has it
            first.close()
            continue
        for each in (first, second):
            stack.enter_context(each).redirect(SERVER, each.port)
        return first, second
    raise OSError(f"no two neighbouring ports were free in {TRIES} tries")
