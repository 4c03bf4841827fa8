"""Paramiko's transport, tamed: our order of algorithms, no rekeying of its own, and what the server says kept."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import paramiko

from local.links import algorithms, hostkeys

if TYPE_CHECKING:
    from collections.abc import Callable

    from local.links.hops import Resolved

NO_REKEY = 1 << 62  # Paramiko deadlocks when it starts a key exchange under load; the server starts them in time
SAID = 300  # characters of what a server says at the end


class Transport(paramiko.Transport):
    """Paramiko's, with what it lacks: the last word of a server that hangs up, and a host key order that is kept.

    Its thread does not trip over a channel that is being opened while the connection dies.
    """

    farewell = ""  # what the server said when it closed the connection

    @property
    def preferred_keys(self) -> tuple[str, ...]:
        """Give the host key algorithms in our order; Paramiko's own asks for any certificate after all plain keys."""
        chosen: tuple[str, ...] = self._preferred_keys  # type: ignore[attr-defined]  # not in its stubs
        return chosen

    def _check_banner(self) -> None:
        readline = self.packetizer.readline

        def heard(timeout: float) -> str:
            line: str = readline(timeout)
            if not line.startswith("SSH-"):  # what a server says instead of being one
                self.farewell = line.strip()[:SAID]
            return line

        self.packetizer.readline = heard  # type: ignore[method-assign]
        try:
            super()._check_banner()  # type: ignore[misc]  # not in its stubs
        finally:
            self.packetizer.readline = readline  # type: ignore[method-assign]

    def _parse_disconnect(self, message: paramiko.Message) -> None:
        said = paramiko.Message(message.asbytes())
        said.get_int()
        self.farewell = said.get_binary().decode("utf-8", "replace").strip()[:SAID]
        super()._parse_disconnect(message)  # type: ignore[misc]  # not in its stubs

    def run(self) -> None:
        """Serve the connection until it ends."""
        try:
            super().run()
        except AttributeError:  # it lists a channel before it has told it whose it is
            self.close()  # what it had still to do: whoever waits is told


def transport_for(hop: Resolved, pin_file: Any) -> Callable[..., paramiko.Transport]:
    """Give what makes the transport of a hop."""

    def make(sock: Any, **options: Any) -> paramiko.Transport:
        transport = Transport(sock, **options)
        algorithms.choose(transport, hop, hostkeys.read((*hop.known_hosts, pin_file)))
        transport.packetizer.REKEY_BYTES = NO_REKEY
        transport.packetizer.REKEY_PACKETS = NO_REKEY
        return transport

    return make
