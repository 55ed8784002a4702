"""Namespaces and devices: this thread stays where it is, and nothing gets a name outside."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.longline.namespace import Device, device_counts, inside, open_device, why_not

OURS = Path("/proc/thread-self/ns/net")


@pytest.fixture
def device() -> Iterator[Device]:
    if reason := why_not():
        pytest.skip(reason)
    made = open_device("10.203.0.1", mtu=1400, queue_packets=2)
    yield made
    for one in made:
        os.close(one)


def test_where_no_line_can_be_emulated_the_reason_names_what_is_needed() -> None:
    reason = why_not()
    assert not reason or "needs root" in reason or "needs Linux" in reason


def test_a_thread_is_in_the_namespace_inside_the_block_only(device: Device) -> None:
    before = OURS.readlink()
    with inside(device.namespace):
        assert OURS.readlink() != before
    assert OURS.readlink() == before
    with pytest.raises(LookupError), inside(Path(f"/proc/self/fd/{device.namespace}")):
        raise LookupError
    assert OURS.readlink() == before


def test_a_device_is_seen_in_its_namespace_only(device: Device) -> None:
    assert "line0" not in dict(socket.if_nameindex()).values()
    with inside(device.namespace):
        assert set(dict(socket.if_nameindex()).values()) == {"lo", "line0"}


def test_what_is_sent_there_is_read_as_a_packet_and_what_is_too_much_is_counted(
    device: Device,
) -> None:
    with inside(device.namespace), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        for number in range(5):
            sender.sendto(bytes([number]) * 100, ("10.203.0.2", 9))
    packets = [os.read(device.packets, 1400) for _ in range(2)]
    assert [one[-1] for one in packets] == [0, 1]
    assert len(packets[0]) == 100 + 28
    assert device_counts(device.namespace).dropped == 3
    with pytest.raises(BlockingIOError):
        os.read(device.packets, 1400)


def test_a_device_is_held_by_its_descriptors_alone(device: Device) -> None:
    descriptors = len(os.listdir("/proc/self/fd"))
    other = open_device("10.203.0.1", mtu=1400, queue_packets=2)
    for one in other:
        os.close(one)
    assert len(os.listdir("/proc/self/fd")) == descriptors
