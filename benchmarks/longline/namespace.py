"""Network namespaces and TUN devices that end with the processes that use them.

Nothing gets a name outside: a namespace is held by descriptors and by the processes in it, and a
TUN device by the descriptor of whoever reads its packets. When they end, also by ``kill -9``, the
kernel removes both.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import socket
import struct
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

__all__ = [
    "Device",
    "DeviceCounts",
    "device_counts",
    "inside",
    "new_namespace",
    "open_device",
    "why_not",
    "without_ipv6",
]

_CLONE_NEWNET = 0x40000000
_OWN = "/proc/thread-self/ns/net"
_TUN = "/dev/net/tun"
_NAME = "line0"

# linux/if_tun.h and linux/sockios.h
_TUNSETIFF, _IFF_TUN, _IFF_NO_PI = 0x400454CA, 0x0001, 0x1000
_SIOCSIFFLAGS, _SIOCSIFADDR, _SIOCSIFNETMASK = 0x8914, 0x8916, 0x891C
_SIOCSIFMTU, _SIOCSIFTXQLEN = 0x8922, 0x8943
_IFF_UP, _IFF_RUNNING = 0x1, 0x40


class Device(NamedTuple):
    """A TUN device: the namespace it is in, and its packets' descriptor (both descriptors)."""

    namespace: int
    packets: int


def why_not() -> str:
    """Return why no long line can be emulated here, as a sentence; ``""`` where it can.

    It tries what is needed, in a thread that ends: a container's root often may not.
    """
    if sys.platform != "linux":
        return "an emulated line needs Linux: network namespaces and TUN devices"
    found: list[str] = []
    thread = threading.Thread(target=lambda: found.append(_try()), name="trying")
    thread.start()
    thread.join()
    return found[0]


def _try() -> str:
    try:
        device = open_device("10.203.0.1", mtu=1500, queue_packets=1)
    except OSError as error:
        return (
            "an emulated line needs root, network namespaces (CAP_SYS_ADMIN, CAP_NET_ADMIN) and "
            f"{_TUN}; here: {error}"
        )
    for one in device:
        os.close(one)
    return ""


def new_namespace() -> int:
    """Make a network namespace and return a descriptor that holds it; this thread stays outside.

    Raises:
        OSError: not permitted, or the kernel has none.
    """
    with _away("unshare", _CLONE_NEWNET):
        return os.open(_OWN, os.O_RDONLY | os.O_CLOEXEC)


@contextmanager
def inside(namespace: int | Path) -> Iterator[None]:
    """Have this thread in ``namespace``: its sockets, and the processes it starts, stay there.

    Args:
        namespace: a descriptor, or a path that leads to one, as in ``/proc/PID/fd``.
    """
    held = namespace if isinstance(namespace, int) else os.open(namespace, os.O_RDONLY)
    try:
        with _away("setns", held, _CLONE_NEWNET):
            yield
    finally:
        if held is not namespace:
            os.close(held)


def open_device(address: str, *, mtu: int, queue_packets: int) -> Device:
    """Make a namespace whose only way out is a TUN device with ``address`` (a /30 network).

    Args:
        address: IPv4, of this end; the other end has the other one of the /30.
        mtu: the largest packet (bytes).
        queue_packets: how many the kernel keeps until they are read; it drops others.

    Raises:
        OSError: not permitted, or there is no TUN.
    """
    namespace = new_namespace()
    try:
        with inside(namespace):
            without_ipv6()
            packets = os.open(_TUN, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
            try:
                _set_up(packets, address, mtu, queue_packets)
            except BaseException:
                os.close(packets)
                raise
    except BaseException:
        os.close(namespace)
        raise
    return Device(namespace, packets)


class DeviceCounts(NamedTuple):
    """What the kernel has counted at a device since it exists."""

    received_bytes: int
    sent_bytes: int
    dropped: int
    """Packets that were to be sent (count)."""


def device_counts(namespace: int, device: str = _NAME) -> DeviceCounts:
    """Return the counts of a device of a namespace.

    Raises:
        OSError: there is no such device.
    """
    with inside(namespace):
        text = Path("/proc/thread-self/net/dev").read_text(encoding="ascii")
    for line in text.splitlines():
        name, _, figures = line.partition(":")
        if name.strip() == device:
            # Eight columns of what was received, then as many of what was sent: both begin with
            # bytes, packets, errors, drops.
            counts = [int(each) for each in figures.split()]
            return DeviceCounts(counts[0], counts[8], counts[11])
    raise OSError(f"the namespace has no device {device}")


@contextmanager
def _away(call: str, *arguments: int) -> Iterator[None]:
    """Have this thread in the namespace that a system call brings it to, and then back."""
    home = os.open(_OWN, os.O_RDONLY | os.O_CLOEXEC)
    try:
        _call(call, *arguments)
        try:
            yield
        finally:
            _call("setns", home, _CLONE_NEWNET)
    finally:
        os.close(home)


def _set_up(packets: int, address: str, mtu: int, queue_packets: int) -> None:
    fcntl.ioctl(packets, _TUNSETIFF, _request(_NAME, struct.pack("=H", _IFF_TUN | _IFF_NO_PI)))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:

        def set_to(number: int, value: bytes, name: str = _NAME) -> None:
            fcntl.ioctl(control, number, _request(name, value))

        set_to(_SIOCSIFMTU, struct.pack("=i", mtu))
        set_to(_SIOCSIFTXQLEN, struct.pack("=i", queue_packets))
        set_to(_SIOCSIFADDR, _ipv4(address))
        set_to(_SIOCSIFNETMASK, _ipv4("255.255.255.252"))
        for name in (_NAME, "lo"):
            set_to(_SIOCSIFFLAGS, struct.pack("=H", _IFF_UP | _IFF_RUNNING), name)


def _request(name: str, value: bytes) -> bytes:
    """Return a ``struct ifreq``."""
    return struct.pack("16s24s", name.encode(), value)


def _ipv4(address: str) -> bytes:
    """Return a ``struct sockaddr_in``."""
    return struct.pack("=HH4s", socket.AF_INET, 0, socket.inet_aton(address))


def without_ipv6() -> None:
    """Keep the kernel from sending packets of its own over devices that this namespace gets later.

    They would shift seeded losses, and count as bytes of whoever is measured.
    """
    for where in ("default", "all"):
        switch = Path(f"/proc/sys/net/ipv6/conf/{where}/disable_ipv6")
        if switch.exists():
            switch.write_text("1", encoding="ascii")


def _call(name: str, *arguments: int) -> None:
    # ``os`` has both from Python 3.12 on.
    function: Callable[..., int] = getattr(ctypes.CDLL(None, use_errno=True), name)
    if function(*arguments):
        error = ctypes.get_errno()
        raise OSError(error, f"{name}: {os.strerror(error)}")
