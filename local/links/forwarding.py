"""The agent lent to a host, where the inventory asks for it: what the host says to it goes to the agent's socket here.

Whoever is root on the host can use every key of the agent for as long as we are connected. So it is asked for host by
host (`forward_agent = true`), never taken from ssh_config, and never given to a jump host.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import socket
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    import paramiko

    from local.links.hops import Resolved

CHUNK = 1 << 14
SECONDS = 10.0  # that the agent's socket may take


def agent_of(hop: Resolved) -> str:
    """Give the socket of the agent that serves a hop, "" where there is none."""
    return os.environ.get("SSH_AUTH_SOCK", "") if hop.agent is None else hop.agent


def notice(hop: Resolved) -> str:
    """Say what is lent to whom."""
    if not os.path.exists(agent_of(hop)):  # noqa: PTH110 - a name as the environment has it, of any length
        return f"forward_agent is asked for {hop}, and no ssh-agent is here to be forwarded: start one, or ssh-add"
    return f"the ssh-agent is forwarded to {hop}, as the inventory asks: while connected, its root can use all its keys"


def ask(channel: paramiko.Channel, agent: str) -> None:
    """Ask for the agent to be forwarded to what a session runs; a server that does not want it says nothing."""
    channel.request_forward_agent(_serving(agent))


def _serving(agent: str) -> Callable[[paramiko.Channel], None]:
    def serve(channel: paramiko.Channel) -> None:
        threading.Thread(target=_join, args=(channel, agent), name="agent", daemon=True).start()

    return serve


def _join(channel: paramiko.Channel, agent: str) -> None:
    """Pass bytes on between the host and the agent until one of them has had enough."""
    with contextlib.suppress(OSError, EOFError), channel, socket.socket(socket.AF_UNIX) as near:
        near.settimeout(SECONDS)
        near.connect(agent)
        near.settimeout(None)  # its user may have to confirm
        with selectors.DefaultSelector() as ready:
            ready.register(near, selectors.EVENT_READ, (near.recv, channel.sendall))
            ready.register(channel, selectors.EVENT_READ, (channel.recv, near.sendall))
            while True:
                for key, _ in ready.select():
                    take, give = key.data
                    if not (data := take(CHUNK)):
                        return
                    give(data)
