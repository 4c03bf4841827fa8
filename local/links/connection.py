"""One authenticated SSH connection, through any jump hosts: dialled by us, verified by us, watched by us."""

from __future__ import annotations

import contextlib
import logging
import socket
import threading
from typing import TYPE_CHECKING, Any

import fabric
import paramiko
from fabric.config import Config, SSHConfig

from local.errors import LinkLost
from local.links import algorithms, hostkeys, trouble
from local.links.hops import BEAT, SILENCE
from local.links.hostpolicy import Policy
from local.links.sockets import dial, through
from local.links.transport import transport_for
from local.links.userkeys import UserKeys

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from local.links.hops import Resolved
    from local.links.settings import SshSettings

PUBLIC_KEYS = paramiko.Transport._preferred_pubkeys  # type: ignore[attr-defined]  # noqa: SLF001 - the only list

# Paramiko reports through logging what it also raises; we tell it once, in our words.
logging.getLogger("paramiko").addHandler(logging.NullHandler())


class Connection:
    """A chain of authenticated transports, the last one being the host's; `why` says why it was given up."""

    def __init__(self, chain: list[fabric.Connection], hop: Resolved) -> None:
        self._chain = chain
        self.lent = hop.lent
        self._beat, self._silence = min(BEAT, hop.alive_every), min(SILENCE, hop.alive_within)
        self._closing = threading.Lock()
        self._ended = threading.Event()
        self.why = ""
        threading.Thread(target=self._watch, name=f"pulse {chain[-1].host}", daemon=True).start()

    @property
    def transport(self) -> paramiko.Transport:
        """Give the host's transport."""
        transport: paramiko.Transport = self._chain[-1].client.get_transport()
        return transport

    @property
    def alive(self) -> bool:
        """Tell whether nobody has given the connection up yet (silence is noticed by the pulse)."""
        return not self._ended.is_set() and self.transport.is_active()

    def close(self, why: str = "") -> None:
        """Let go at once of everything that waits on the connection."""
        with self._closing:
            if self._ended.is_set():
                return
            self.why = why
            self._ended.set()
        for link in reversed(self._chain):
            _shut(link)

    def lost(self, otherwise: str) -> LinkLost:
        """Give the error for a connection that broke."""
        return LinkLost(self.why or otherwise)

    def _watch(self) -> None:
        """Probe with a deadline of our own: a transport thinks itself active on a dead link for hours."""
        transport = self.transport
        while not self._ended.wait(self._beat) and transport.is_active():
            answered = threading.Event()
            threading.Thread(target=_probe, args=(transport, answered), name="probe", daemon=True).start()
            if not answered.wait(self._silence) and not self._ended.is_set():
                self.close(f"the host has not answered for {self._silence:g} s")


def connect(
    hops: Sequence[Resolved], settings: SshSettings, notice: Callable[[str], None], *, pin_file: Any = None
) -> Connection:
    """Connect hop by hop, each verified and let in as the last is; raises Unreachable or HostKeyError."""
    chain: list[fabric.Connection] = []
    try:
        for hop in hops:
            chain.append(_open(hop, settings, notice, chain[-1] if chain else None, pin_file or hostkeys.pins()))
    except BaseException:
        for link in reversed(chain):
            _shut(link)
        raise
    return Connection(chain, hops[-1])


def _open(
    hop: Resolved, settings: SshSettings, notice: Callable[[str], None], gateway: Any, pin_file: Any
) -> fabric.Connection:
    sock = None
    link = None
    try:
        sock = _reach(hop, gateway)
        link = _prepared(hop, settings, notice, sock, pin_file)
        link.open()
    except BaseException as error:
        said = ""
        if link is not None:
            said = getattr(link.client.get_transport(), "farewell", "")
            _shut(link)
        if sock is not None:
            sock.close()
        if not isinstance(error, Exception):
            raise
        raise trouble.explain(error, target=str(hop), where=settings.name, said=said) from error
    return link


def _reach(hop: Resolved, gateway: Any) -> Any:
    if gateway is not None:
        transport = gateway.client.get_transport()
        place = (hop.host, hop.port)
        return transport.open_channel("direct-tcpip", place, ("127.0.0.1", 0), timeout=hop.connect_timeout)
    if hop.proxy_command:
        return through(hop.proxy_command)
    return dial(hop.host, hop.port, hop.connect_timeout, family=hop.family, source=hop.bind_address)


def _prepared(
    hop: Resolved, settings: SshSettings, notice: Callable[[str], None], sock: Any, pin_file: Any
) -> fabric.Connection:
    """Give Fabric's connection with our socket, host key policy, algorithms, keys and deadlines in place of its own."""
    link = fabric.Connection(
        hop.host,
        user=hop.user,
        port=hop.port,
        forward_agent=False,
        config=Config(ssh_config=SSHConfig()),  # ssh_config has been asked already
        connect_kwargs={
            "sock": sock,
            "timeout": settings.banner_timeout,
            "banner_timeout": settings.banner_timeout,
            "auth_timeout": settings.auth_timeout,
            "channel_timeout": hop.connect_timeout,
            "disabled_algorithms": {"pubkeys": algorithms.refused_signatures(hop, PUBLIC_KEYS)},
            "auth_strategy": UserKeys(hop),
            "transport_factory": transport_for(hop, pin_file),
        },
    )
    link.client.set_missing_host_key_policy(Policy(hop, settings.name, notice, pin_file))
    return link


def _probe(transport: paramiko.Transport, answered: threading.Event) -> None:
    with contextlib.suppress(Exception):  # a broken link is found by everybody else too
        transport.global_request("keepalive@openssh.com", wait=True)
    answered.set()


def _shut(link: fabric.Connection) -> None:
    transport = link.client.get_transport()
    if transport is not None:
        with contextlib.suppress(Exception):  # its thread wakes up at once, and not at its next look in 0.1 s
            transport.sock.shutdown(socket.SHUT_RDWR)
    with contextlib.suppress(Exception):  # whatever it says, it is let go of
        link.client.close()
    if transport is not None:
        transport.sock.close()
        if transport.is_alive() and transport is not threading.current_thread():
            transport.join(1.0)
