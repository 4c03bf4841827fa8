"""Links that faults can be done to: processes of this machine, and a real SSH server behind a proxy of ours."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import threading
import time
from typing import TYPE_CHECKING, Protocol

from local.links.here import HereLink, HereStream
from tests.ssh import sshd
from tests.ssh.proxy import Proxy

if TYPE_CHECKING:
    import socket
    from pathlib import Path

    from local.links.base import Command
    from tests.ssh.servers import Server


class LinkFaults(Protocol):
    """What can be done to a link; each tells whether there was anything to do it to."""

    def cut(self) -> bool: ...
    def silence(self, seconds: float) -> bool: ...
    def slow(self, seconds: float) -> bool: ...
    def kill_server(self) -> bool: ...


class HereFaults(HereLink):
    """This machine as a host, whose streams can be cut and frozen."""

    def __init__(self, home: Path) -> None:
        super().__init__(home)
        self._streams: list[HereStream] = []

    def stream(self, command: Command, *, stdin: bytes = b"") -> HereStream:
        self._streams = [super().stream(command, stdin=stdin)]
        return self._streams[-1]

    def cut(self) -> bool:
        return self._signal(signal.SIGKILL)

    def silence(self, seconds: float) -> bool:
        held = [*self._streams]
        struck = self._signal(signal.SIGSTOP, held)
        time.sleep(seconds)
        self._signal(signal.SIGCONT, held)
        return struck

    def slow(self, seconds: float) -> bool:
        """Stop and go."""
        struck, until = False, time.monotonic() + seconds
        while time.monotonic() < until:
            struck |= self._signal(signal.SIGSTOP)
            time.sleep(0.1)
            self._signal(signal.SIGCONT)
            time.sleep(0.05)
        return struck

    def kill_server(self) -> bool:
        return self.cut()  # nobody stands between us and the command here

    def _signal(self, number: int, streams: list[HereStream] | None = None) -> bool:
        struck = False
        for stream in self._streams if streams is None else streams:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                if stream._process.poll() is None:
                    os.killpg(stream._process.pid, number)
                    struck = True
        return struck


class RoughProxy(Proxy):
    """A proxy that can also be slow: everything comes in small pieces, late, some of it much later."""

    def __init__(self, port: int) -> None:
        super().__init__(port)
        self.rough = threading.Event()

    def _pump(self, source: socket.socket, sink: socket.socket) -> None:
        dice = random.Random(id(source))  # noqa: S311 - makes delays, guards nothing
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                self._flowing.wait()
                if self.rough.is_set():
                    for at in range(0, len(data), 512):
                        time.sleep(0.2 if dice.random() < 0.05 else 0.003)  # a lost packet comes when it is sent again
                        sink.sendall(data[at : at + 512])
                else:
                    sink.sendall(data)
            sink.shutdown(1)


class SshFaults:
    """What happens to a real SSH link: by the proxy in between, or to the server."""

    def __init__(self, proxy: RoughProxy, server: Server) -> None:
        self._proxy = proxy
        self._server = server

    def cut(self) -> bool:
        self._proxy.cut()
        return True

    def silence(self, seconds: float) -> bool:
        self._proxy.stall()
        time.sleep(seconds)
        self._proxy.resume()
        return True

    def slow(self, seconds: float) -> bool:
        self._proxy.rough.set()
        time.sleep(seconds)
        self._proxy.rough.clear()
        return True

    def kill_server(self) -> bool:
        if self._server.kind != "sshd":
            return self.cut()
        found = sshd.sessions(self._server)
        for session in found:
            with contextlib.suppress(Exception):  # it may be gone by itself
                session.kill()
        return bool(found)
