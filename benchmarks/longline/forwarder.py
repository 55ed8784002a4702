"""Carries the packets of a long line between two TUN devices, in a process of its own.

The kernel of each namespace speaks TCP as on any line; here packets are read, kept until they are
due, and written at the other end. Times are kept to about a millisecond. What it holds is bounded
by the line: its queue and what is under way, in each direction. The process ends with the program
that started it, and with it devices and namespaces.
"""

from __future__ import annotations

import gc
import os
import select
import sys
import time
from collections import deque
from contextlib import suppress
from typing import Any

from benchmarks.links.lines import Line
from benchmarks.longline.bottleneck import Bottleneck
from benchmarks.longline.namespace import Device, device_counts, open_device
from benchmarks.worker import Port

__all__ = ["FAR", "NEAR", "Way", "forward"]

NEAR, FAR = "10.203.0.1", "10.203.0.2"
TURN_SECONDS = 0.00025
"""The forwarder looks at most so often: packets of one look cost less than one look for each."""
BATCH_PACKETS = 256
UNREAD_SECONDS = 0.25
"""What the kernel keeps for a forwarder that is not scheduled (seconds of the line's rate)."""
MIN_UNREAD_PACKETS, MAX_UNREAD_PACKETS = 20_000, 50_000
_IPV4 = 4


class Way:
    """One direction: reads from a device, keeps packets until they are due, writes to another.

    Args:
        source: descriptor of the device that is read.
        target: descriptor of the device that is written to.
        bottleneck: when which packet arrives.
        mtu: the largest packet (bytes).
    """

    def __init__(self, source: int, target: int, bottleneck: Bottleneck, mtu: int) -> None:
        self.source, self.bottleneck = source, bottleneck
        self._target, self._mtu = target, mtu
        self._waiting: deque[tuple[float, bytes]] = deque()

    @property
    def due_at(self) -> float | None:
        """When the next packet is due; None: none is under way."""
        return self._waiting[0][0] if self._waiting else None

    def take(self, now: float) -> None:
        """Read what has come, up to a batch."""
        source, mtu = self.source, self._mtu
        enter, keep = self.bottleneck.enter, self._waiting.append
        for _ in range(BATCH_PACKETS):
            try:
                packet = os.read(source, mtu)
            except BlockingIOError:
                return
            if packet[0] >> 4 == _IPV4:
                due_at = enter(len(packet), now=now)
                if due_at is not None:
                    keep((due_at, packet))

    def give(self, now: float) -> None:
        """Write what is due."""
        waiting, target = self._waiting, self._target
        while waiting and waiting[0][0] <= now:
            os.write(target, waiting.popleft()[1])


def forward(port: Port, line: dict[str, Any]) -> None:
    """Stand a line up and carry its packets, until told to end or until nobody is there to tell.

    Each ``count`` is answered with what has passed so far.
    """
    port.mark_base()
    plan = Line.from_json(line)
    _first_in_line_for_the_processor()
    up_rate, down_rate = (way.rate or 0.0 for way in plan.ways)
    near, far = _open(NEAR, up_rate, plan.mtu), _open(FAR, down_rate, plan.mtu)
    port.tell("standing", near=near.namespace, far=far.namespace)
    now = time.monotonic()
    up = Way(near.packets, far.packets, Bottleneck(plan, 0, began_at=now), plan.mtu)
    down = Way(far.packets, near.packets, Bottleneck(plan, 1, began_at=now), plan.mtu)
    gc.disable()  # thousands of packets are looked through in vain, while others wait
    with suppress(EOFError):
        while _carry((up, down), sys.stdin.fileno()):
            if port.next_command()["event"] != "count":
                return
            port.tell("counted", up=_counted(up, near), down=_counted(down, far))


def _carry(ways: tuple[Way, Way], commands: int) -> bool:
    """Carry packets until there is a command."""
    read_from = [*(way.source for way in ways), commands]
    turn_at = 0.0
    while True:
        dues = [at for way in ways if (at := way.due_at) is not None]
        wait = max(0.0, min(dues) - time.monotonic()) if dues else None
        ready, _, _ = select.select(read_from, [], [], wait)
        if commands in ready:
            return True
        early = turn_at - time.monotonic()
        if early > 0:
            time.sleep(early)
        now = time.monotonic()
        turn_at = now + TURN_SECONDS
        for way in ways:
            way.take(now)
            way.give(now)


def _open(address: str, rate: float, mtu: int) -> Device:
    unread = int(UNREAD_SECONDS * rate / 8) // mtu
    unread = min(max(unread, MIN_UNREAD_PACKETS), MAX_UNREAD_PACKETS)
    return open_device(address, mtu=mtu, queue_packets=unread)


def _counted(way: Way, device: Device) -> dict[str, int]:
    """Return what entered the direction; ``unread``: what the kernel dropped before."""
    return {**way.bottleneck.counts.as_json(), "unread": device_counts(device.namespace).dropped}


def _first_in_line_for_the_processor() -> None:
    """Go before the ends that use the line: a line does not wait for a processor."""
    with suppress(PermissionError):
        os.setpriority(os.PRIO_PROCESS, 0, -10)
