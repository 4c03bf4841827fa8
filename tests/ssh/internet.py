"""A small internet: a laptop and hosts in network namespaces of their own, far apart, on lines that lose packets.

Every member has a TUN device with an address of its own; a thread of ours is all the routers between them: it keeps
each packet for the time of the way, and loses some, drawn from a seed. Nothing outside the namespaces is touched.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import heapq
import itertools
import os
import random
import select
import shutil
import struct
import subprocess
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Self

import pytest

if TYPE_CHECKING:
    from types import TracebackType

TUNSETIFF = 0x400454CA
TUN = 0x0001 | 0x1000  # packets of IP, without a header of the device's own
NEWNET = 0x40000000
PACKET = 65536
DESTINATION = slice(16, 20)  # of an IPv4 header
TOOLS = ("ip", "unshare", "nsenter")


def why_not() -> str | None:
    """Say why no internet can be made here, None when it can."""
    if missing := [tool for tool in TOOLS if shutil.which(tool) is None]:
        return f"not installed: {', '.join(missing)}"
    if not os.access("/dev/net/tun", os.R_OK | os.W_OK):
        return "no /dev/net/tun"
    done = subprocess.run(["unshare", "--net", "true"], capture_output=True, text=True, check=False)
    return None if done.returncode == 0 else f"network namespaces are not allowed: {done.stderr.strip()}"


needs_internet = pytest.mark.skipif(bool(reason := why_not()), reason=f"no internet of our own: {reason}")


class Internet:
    """Members by address; `delay` is the seconds of one way, `loss` the share of packets that never arrive."""

    def __init__(self, addresses: list[str], *, delay: float = 0.0, loss: float = 0.0, seed: int = 0) -> None:
        self.delay = delay
        self.loss = loss
        self.dark: set[str] = set()  # addresses from and to which nothing goes
        self.carried = 0
        self._random = random.Random(seed)  # noqa: S311 - which packets are lost guards nothing
        self._stack = contextlib.ExitStack()
        self._namespaces: dict[str, int] = {}
        self._devices: dict[str, int] = {}
        self._addresses = addresses
        self._under_way: list[tuple[float, int, bytes]] = []
        self._number = itertools.count()
        self._ended = threading.Event()

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as stack:
            for address in self._addresses:
                self._namespaces[address] = _namespace(stack)
                self._devices[address] = _device(self._namespaces[address])
                stack.callback(os.close, self._devices[address])
                for words in (f"address add {address}/24 dev far", "link set far mtu 1400 up", "link set lo up"):
                    subprocess.run([*self.inside(address), "ip", *words.split()], check=True)
            thread = threading.Thread(target=self._route, name="internet")
            stack.callback(thread.join, 10)
            stack.callback(self._ended.set)
            thread.start()
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def inside(self, address: str) -> list[str]:
        """Give the words before a command that make it run at this member."""
        return ["nsenter", "-t", str(self._namespaces[address]), "-n", "--"]

    def _route(self) -> None:
        while not self._ended.is_set():
            wait = max(0.0, self._under_way[0][0] - time.monotonic()) if self._under_way else 0.1
            ready, _, _ = select.select(list(self._devices.values()), [], [], min(wait, 0.1))
            for device in ready:
                with contextlib.suppress(OSError):
                    self._take(os.read(device, PACKET), device)
            self._deliver()

    def _take(self, packet: bytes, device: int) -> None:
        if packet[0] >> 4 != 4 or self._random.random() < self.loss:
            return
        source = next(address for address, of in self._devices.items() if of == device)
        if source not in self.dark:
            heapq.heappush(self._under_way, (time.monotonic() + self.delay, next(self._number), packet))

    def _deliver(self) -> None:
        while self._under_way and self._under_way[0][0] <= time.monotonic():
            packet = heapq.heappop(self._under_way)[2]
            address = ".".join(map(str, packet[DESTINATION]))
            if address in self._devices and address not in self.dark:
                self.carried += 1
                with contextlib.suppress(OSError):  # a full queue: routers lose such packets, too
                    os.write(self._devices[address], packet)


def _namespace(stack: contextlib.ExitStack) -> int:
    """Start a process that does nothing but be in a network of its own; gives its pid."""
    words = ["unshare", "--net", "--", "sh", "-c", "echo here && exec sleep 900"]
    process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    stack.callback(process.wait)
    stack.callback(process.kill)
    assert process.stdout is not None
    stack.callback(process.stdout.close)
    assert process.stdout.readline() == b"here\n"
    return process.pid


def _device(namespace: int) -> int:
    """Make a TUN device in the network of a process: a thread goes there, the descriptor stays good everywhere."""
    made: list[int] = []

    def make() -> None:
        with Path(f"/proc/{namespace}/ns/net").open("rb") as network:
            if ctypes.CDLL(None, use_errno=True).setns(network.fileno(), NEWNET) != 0:
                return
        device = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        fcntl.ioctl(device, TUNSETIFF, struct.pack("16sH", b"far", TUN))
        made.append(device)

    thread = threading.Thread(target=make)
    thread.start()
    thread.join()
    assert made, "no TUN device could be made in the namespace"
    return made[0]
