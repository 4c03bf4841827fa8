"""TCP connections of our own, with what Paramiko's lack: no delay for small packets, and an end to unanswered data."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import time

UNANSWERED = 20.0  # seconds that sent data may stay unacknowledged before the kernel gives up

UNSENT = 1 << 17  # bytes that wait in the kernel to be sent


def dial(
    host: str, port: int, timeout: float, *, family: int = socket.AF_UNSPEC, source: str | None = None
) -> socket.socket:
    """Connect to the first of a host's addresses that answers; raises OSError of the last that did not."""
    until = time.monotonic() + timeout
    failure: OSError = TimeoutError(f"no address of {host} answered")
    for found, kind, protocol, _, address in socket.getaddrinfo(host, port, family, socket.SOCK_STREAM):
        left = until - time.monotonic()
        if left <= 0:
            break
        sock = socket.socket(found, kind, protocol)
        try:
            sock.settimeout(left)
            if source is not None:
                sock.bind((source, 0))
            sock.connect(address)
        except OSError as error:
            sock.close()
            failure = error
            continue
        tune(sock)
        return sock
    raise failure


def tune(sock: socket.socket) -> None:
    """Set what a link wants of its socket."""
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    if hasattr(socket, "TCP_NOTSENT_LOWAT"):  # a probe does not queue behind megabytes of an upload
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, UNSENT)
    if hasattr(socket, "TCP_USER_TIMEOUT"):  # Linux
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(UNANSWERED * 1000))


def through(command: str) -> CommandSocket:
    """Start a ProxyCommand and give the socket whose other end is its input and output."""
    near, far = socket.socketpair()
    shell = os.environ.get("SHELL") or "/bin/sh"  # as OpenSSH does
    with far:
        process = subprocess.Popen(
            [shell, "-c", f"exec {command}"], stdin=far.fileno(), stdout=far.fileno(), start_new_session=True
        )
    return CommandSocket(near, process)


class CommandSocket(socket.socket):
    """A socket to a command that ends with it."""

    def __init__(self, near: socket.socket, process: subprocess.Popen[bytes]) -> None:
        super().__init__(fileno=near.detach())
        self._process = process

    def close(self) -> None:
        """Close the socket and end the command."""
        super().close()
        if self._process.poll() is None:
            self._process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(1.0)
                return
            self._process.kill()
            self._process.wait()
