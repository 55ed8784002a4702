"""The two lines to a server of objects, which can be cut: of its sessions, and of the bytes.

Clients dial the port of the bytes at the host of the session, under the number that the server
names. So the lines have the server's two numbers, at another address of the loopback.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack

from benchmarks.closing import Closing
from benchmarks.relay import Direction, Relay, Step

__all__ = ["Lines"]

SERVER, CLIENTS = "127.0.0.2", "127.0.0.1"
TRIES = 20


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
        self.port = self._both[0].port
        ports = f"{self.port}-{self.port + 1}"
        self.address, self.behind = f"{CLIENTS}:{ports}", f"{SERVER}:{ports}"

    def reset_after(self, *nbytes: tuple[int, Direction]) -> None:
        """Reset the line that models are on after so many bytes, counted from now."""
        # One has carried them; the other one comes to no such number.
        steps = [Step(action=self._reset, after_bytes=n, direction=way) for n, way in nbytes]
        for each in self._both:
            each.play(steps)

    def cut_after(self, nbytes: int) -> None:
        """Cut both lines after so many bytes to the clients, until ``mend``."""
        for each in self._both:
            each.play([Step(action=self._cut, after_bytes=nbytes)])

    def mend(self) -> None:
        """Take new connections again."""
        for each in self._both:
            each.allow()

    @property
    def resets(self) -> int:
        """How often a line was reset or cut."""
        return len(self._hit)

    def close(self) -> None:
        """End both lines."""
        self._opened.close()

    def _reset(self, line: Relay) -> None:
        self._hit.append(line)
        line.reset()

    def _cut(self, line: Relay) -> None:
        self._hit.append(line)
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
