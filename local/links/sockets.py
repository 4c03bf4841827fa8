"""TCP connections of our own, with what Paramiko's lack: no delay for small packets, and an end to unanswered data."""

from __future__ import annotations

import socket
import time

UNANSWERED = 20.0  # seconds that sent data may stay unacknowledged before the kernel gives up


def dial(host: str, port: int, timeout: float) -> socket.socket:
    """Connect to the first of a host's addresses that answers; raises OSError of the last that did not."""
    until = time.monotonic() + timeout
    failure: OSError = TimeoutError(f"no address of {host} answered")
    for family, kind, protocol, _, address in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM):
        left = until - time.monotonic()
        if left <= 0:
            break
        sock = socket.socket(family, kind, protocol)
        try:
            sock.settimeout(left)
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
    if hasattr(socket, "TCP_USER_TIMEOUT"):  # Linux
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(UNANSWERED * 1000))
