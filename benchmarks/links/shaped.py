"""A line that the kernel limits: two namespaces joined by a veth pair, with tbf at each end.

TCP goes from end to end, and the packets take no way through user space, so fast lines are limited
with little of the processor. The kernel can give such a line a rate, but no delay and no losses
without ``netem``, which few kernels have. Needs root, and the programs ``ip`` and ``tc``.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from contextlib import AbstractContextManager
from typing import Any, Self

from benchmarks.closing import Closing
from benchmarks.links.lines import Line, Passed
from benchmarks.longline.namespace import device_counts, inside, new_namespace, without_ipv6
from benchmarks.longline.roads import kernel_settings

__all__ = ["ShapedPlace", "why_not_shaped"]

DEVICE = "line0"  # in each namespace
NEAR, FAR = "10.204.0.1", "10.204.0.2"
COMMAND_SECONDS = 30.0

BURST_SECONDS = 0.004
"""The size of tbf's bucket, in seconds at the line's rate: one timer tick of a kernel with 250 Hz.
tbf fills the bucket no more often, so a smaller one would keep a fast line below its rate."""
LEAST_BURST_BYTES = 5 * 1514
QUEUE_SECONDS = 0.1
"""What tbf keeps beyond that, in seconds of the rate; it drops others, as a router does."""


def why_not_shaped() -> str:
    """Return why there is no such line on this machine, as a sentence; empty: there is."""
    for program in ("ip", "tc"):
        if shutil.which(program) is None:
            return f"a line with tbf needs the program {program} (package iproute2)"
    try:
        os.close(new_namespace())
    except OSError as error:
        return f"a line with tbf needs root and network namespaces; here: {error}"
    return ""


class ShapedPlace(Closing):
    """The two namespaces and the pair between them; they end with whoever holds them.

    Raises:
        ValueError: the line has what tbf cannot give.
    """

    host = FAR

    def __init__(self, line: Line) -> None:
        self._line = line
        self._near = self._far = -1

    def __enter__(self) -> Self:
        try:
            self._near, self._far = new_namespace(), new_namespace()
            for end in (self._near, self._far):
                with inside(end):
                    without_ipv6()
            other = f"/proc/{os.getpid()}/fd/{self._far}"
            self._do(self._near, "ip", "link", "add", DEVICE, "type", "veth",
                     "peer", "name", DEVICE, "netns", other)  # fmt: skip
            for end, address, way in (
                (self._near, NEAR, self._line.up),
                (self._far, FAR, self._line.down),
            ):
                self._do(end, "ip", "address", "add", f"{address}/30", "dev", DEVICE)
                self._do(end, "ip", "link", "set", DEVICE, "up")
                self._do(end, "ip", "link", "set", "lo", "up")
                self._do(end, "tc", "qdisc", "add", "dev", DEVICE, "root", *_tbf(way.rate or 0.0))
        except BaseException:
            self.close()
            raise
        return self

    def near(self) -> AbstractContextManager[None]:
        """Start the process that dials inside this block."""
        return inside(self._near)

    def far(self) -> AbstractContextManager[None]:
        """Start the process that listens inside this block."""
        return inside(self._far)

    def reach(self, number: int, *, has_data_port: bool = False) -> tuple[str, int]:
        """Return host and port by which the near end reaches a port of the far end."""
        return self.host, number

    def passed(self) -> Passed:
        """Return the bytes of all packets that have left each end, with their Ethernet headers."""
        up, down = (device_counts(end, DEVICE).sent_bytes for end in (self._near, self._far))
        return Passed(up + down, up, down)

    def finish(self) -> dict[str, Any]:
        """Return what tbf has dropped, and the kernel's settings."""
        drops = {
            name: self._dropped(end) for name, end in (("up", self._near), ("down", self._far))
        }
        with self.near():
            return {"dropped": drops, "kernel": kernel_settings()}

    def close(self) -> None:
        """Let go of the namespaces; the pair goes with them."""
        for end in (self._near, self._far):
            if end >= 0:
                os.close(end)
        self._near = self._far = -1

    def _dropped(self, end: int) -> int:
        shown = json.loads(self._do(end, "tc", "-s", "-j", "qdisc", "show", "dev", DEVICE))
        return sum(int(each.get("drops", 0)) for each in shown)

    @staticmethod
    def _do(namespace: int, *words: str) -> str:
        with inside(namespace):
            found = subprocess.run(
                words, capture_output=True, text=True, timeout=COMMAND_SECONDS, check=False
            )
        if found.returncode:
            raise OSError(f"{' '.join(words)}: {found.stderr.strip() or found.returncode}")
        return found.stdout


def _tbf(rate: float) -> tuple[str, ...]:
    """Return what ``tc`` is told for a rate (bits per second)."""
    burst = max(LEAST_BURST_BYTES, int(rate / 8 * BURST_SECONDS))
    queue = burst + max(LEAST_BURST_BYTES, int(rate / 8 * QUEUE_SECONDS))
    return "tbf", "rate", f"{rate:.0f}bit", "burst", str(burst), "limit", str(queue)
