"""The addresses and interfaces that a job's environment names for its processes to meet at: each tried, not believed.

Torch asks an address that nobody answers for half an hour before it gives up, and vLLM says nothing meanwhile. Who
serves there listens on every address of the machine, so the trial does the same, and then connects.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import queue
import socket
import struct
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

PATIENCE = 4.0  # seconds for a name to be resolved and a connection to be made: within one machine both take none
ADDRESSES = ("VLLM_LOOPBACK_IP", "VLLM_HOST_IP")
LOOPBACKS = ("127.0.0.1", "::1")  # where vLLM's processes meet unless they are told another place
INTERFACES = "GLOO_SOCKET_IFNAME"  # each must be there, with an address
PATTERNS = "NCCL_SOCKET_IFNAME"  # beginnings of names, of which one must fit
ASK_ADDRESS = 0x8915  # SIOCGIFADDR
IF_INET6 = Path("/proc/net/if_inet6")


def troubles(environment: Mapping[str, str]) -> dict[str, str]:
    """Say what is wrong, by the variable that names it; "loopback" where none does and none can be used."""
    found = {name: _address(environment[name]) for name in ADDRESSES if environment.get(name)}
    if not environment.get("VLLM_LOOPBACK_IP"):
        own = next(filter(_local, LOOPBACKS), "")
        found["loopback"] = _address(own) if own else "the loopback interface has no address"
    # Torch takes a name of one character for none.
    if len(named := environment.get(INTERFACES, "")) > 1:
        found[INTERFACES] = _without_address(named.removesuffix(",").split(","))
    if named := environment.get(PATTERNS, ""):
        found[PATTERNS] = _unmatched(named)
    return {name: told for name, told in found.items() if told}


def _address(address: str) -> str:
    """Say why a process of this machine does not reach another one through an address; nothing when it does."""
    return _within(PATIENCE, lambda: _reach(address)) or ""


def _within(seconds: float, act: Callable[[], str]) -> str:
    """Give what an act says, or that it says nothing: a resolver takes no limit on time."""
    said: queue.SimpleQueue[str] = queue.SimpleQueue()
    threading.Thread(target=lambda: said.put(act()), name="network-trial", daemon=True).start()
    try:
        return said.get(timeout=seconds)
    except queue.Empty:
        return f"nothing answers within {seconds:g} s"


def _reach(address: str) -> str:
    try:
        found = socket.getaddrinfo(address, 0, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        return f"it is no address, and no name that this host knows ({_words(error)})"
    told = [_met(family, place) for family, *_, place in found]
    return "" if "" in told else told[0]


def _met(family: int, place: Sequence[Any]) -> str:
    """Say why one address of a name is not where processes of this machine meet."""
    try:
        with _listening(family) as server, socket.socket(family, socket.SOCK_STREAM) as client:
            client.settimeout(PATIENCE)
            client.connect((place[0], server.getsockname()[1], *place[2:]))
            server.accept()[0].close()  # another machine may have answered
    except OSError as error:
        return _words(error)
    return ""


@contextlib.contextmanager
def _listening(family: int) -> Iterator[socket.socket]:
    """Listen on every address of the machine."""
    with socket.socket(family, socket.SOCK_STREAM) as server:
        server.bind(("::" if family == socket.AF_INET6 else "0.0.0.0", 0))  # noqa: S104 - for a moment, and as torch does
        server.listen(1)
        server.settimeout(PATIENCE / 2)
        yield server


def _local(address: str) -> bool:
    """Tell whether an address is this machine's own, as vLLM asks it."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with contextlib.suppress(OSError), socket.socket(family, socket.SOCK_DGRAM) as found:
        found.bind((address, 0))
        return True
    return False


def _without_address(names: list[str]) -> str:
    there = _interfaces()
    for name in names if there else ():
        if name not in there:
            return f"there is no interface {name!r} (there are {', '.join(there)})"
        if not _has_address(name):
            return f"the interface {name!r} has no address"
    return ""


def _unmatched(said: str) -> str:
    """Hold NCCL's word for interfaces against those that are there: `^` none of, `=` exactly, else beginnings."""
    without, exactly = said.startswith("^"), said.lstrip("^").startswith("=")
    wanted = [part.partition(":")[0] for part in said.lstrip("^").removeprefix("=").split(",")]
    there = _interfaces()
    fits = [name for name in there if any(name == one if exactly else name.startswith(one) for one in wanted)]
    left = [name for name in there if (name in fits) != without and _has_address(name)]
    return "" if left or not there else f"no interface with an address fits it (there are {', '.join(there)})"


def _interfaces() -> list[str]:
    """Name the interfaces; none where the kernel does not tell."""
    with contextlib.suppress(OSError):
        return [name for _, name in socket.if_nameindex()]
    return []


def _has_address(name: str) -> bool:
    with contextlib.suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        fcntl.ioctl(asked, ASK_ADDRESS, struct.pack("256s", os.fsencode(name)))
        return True
    with contextlib.suppress(OSError):
        return any(line.split()[-1:] == [name] for line in IF_INET6.read_text(encoding="ascii").splitlines())
    return False


def _words(error: Exception) -> str:
    said = error.strerror if isinstance(error, OSError) else None
    return said or str(error) or type(error).__name__
