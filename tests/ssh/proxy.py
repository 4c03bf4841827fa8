"""A TCP proxy that does to connections what networks do: cut them, hold everything back, go on."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
import time
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from types import TracebackType

ABORT = struct.pack("ii", 1, 0)  # linger 0: closing sends a reset


class Proxy:
    """Listens on the loopback and passes on to `port`; `delay` is what a packet takes one way, in seconds."""

    def __init__(self, port: int, *, delay: float = 0.0) -> None:
        self._target = port
        self._delay = delay
        self._flowing = threading.Event()
        self._flowing.set()
        self._sockets: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.accepted = 0

    def cut(self) -> None:
        """Break every connection that passes through now."""
        taken, self._sockets = self._sockets, []
        for sock in taken:
            with contextlib.suppress(OSError):
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, ABORT)
                sock.shutdown(socket.SHUT_RDWR)
            sock.close()

    def stall(self) -> None:
        """Pass nothing on, and tell nobody: connections stay open."""
        self._flowing.clear()

    def resume(self) -> None:
        """Pass on again, what was held back first."""
        self._flowing.set()

    def __enter__(self) -> Self:
        self._spawn(self._accept)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut()
        self.resume()
        for thread in self._threads:
            thread.join(5)

    def _spawn(self, target: object, *arguments: object) -> None:
        thread = threading.Thread(target=target, args=arguments, name="proxy")  # type: ignore[arg-type]
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                self.accepted += 1
                far = socket.create_connection(("127.0.0.1", self._target))
                self._sockets += [near, far]
                self._spawn(self._pump, near, far)
                self._spawn(self._pump, far, near)

    def _pump(self, source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                self._flowing.wait()
                time.sleep(self._delay)
                sink.sendall(data)
            sink.shutdown(socket.SHUT_WR)
