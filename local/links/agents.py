"""ssh-agents: which keys they hold. They are asked for signatures only."""

from __future__ import annotations

import contextlib
import functools
import os
import socket
from typing import TYPE_CHECKING, Any

import paramiko
from paramiko.agent import AgentSSH
from paramiko.pkey import PublicBlob

from local.links.hostcerts import SUFFIX

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SECONDS = 10.0  # for the list of keys
SIGNING = 25.0  # for a signature: its user may have to confirm, or to touch a security key; less than a login may take
SECURITY_KEY = "sk-"


class Agent(AgentSSH):
    """The agent at a socket; asked for signatures only."""

    def __init__(self, path: str) -> None:
        super().__init__()
        self._sock = socket.socket(socket.AF_UNIX)
        try:
            self._sock.settimeout(SECONDS)
            self._sock.connect(path)
            self._connect(self._sock)  # type: ignore[attr-defined]  # not in its stubs
            self._sock.settimeout(SIGNING)
        except BaseException:
            self._sock.close()
            raise

    def close(self) -> None:
        """Leave the agent; who waits for it gets an error."""
        with contextlib.suppress(OSError):
            self._sock.shutdown(socket.SHUT_RDWR)
        self._close()  # type: ignore[attr-defined]


@contextlib.contextmanager
def keys_of(chosen: str | None) -> Iterator[dict[bytes, Any]]:
    """Give an agent's keys by their plain public keys or certificates; an agent that is not there holds none."""
    path = os.environ.get("SSH_AUTH_SOCK", "") if chosen is None else chosen
    agent = None
    held: dict[bytes, Any] = {}
    with contextlib.suppress(OSError, paramiko.SSHException, EOFError):
        agent = Agent(path) if path else None
    keys: tuple[Any, ...] = agent.get_keys() if agent else ()
    for key in keys:
        if key.get_name().endswith(SUFFIX):
            key.public_blob = PublicBlob(type_=key.get_name(), blob=key.blob)
        key.sign_ssh_data = functools.partial(_signature, key, key.sign_ssh_data)
        held[bytes(key.blob)] = key
    try:
        yield held
    finally:
        if agent:
            agent.close()


def _signature(key: Any, sign: Callable[..., Any], data: bytes, algorithm: str | None = None) -> bytes:
    """Give the agent's signature, or one that no server takes; then `unsigned` of the key says why.

    Paramiko ends the whole connection over an error in here, and with it all the keys that come after this one.
    """
    try:
        return bytes(sign(data, algorithm))
    except (OSError, EOFError, paramiko.SSHException, AttributeError) as error:  # the last: it was left meanwhile
        late = isinstance(error, TimeoutError)
        touch = ": its security key was not touched" if late and is_security_key(key) else ""
        key.unsigned = (
            f"the agent gave no signature in {SIGNING:g} s{touch}" if late else "the agent does not sign with it"
        )
        if late:
            key.agent.close()  # what it may say later is no answer to the next question
        nothing = paramiko.Message()
        nothing.add_string(algorithm or key.get_name())
        nothing.add_string(b"")
        return nothing.asbytes()


def is_security_key(key: Any) -> bool:
    """Tell whether somebody must be there to sign with a key (FIDO)."""
    return str(key.get_name()).startswith(SECURITY_KEY)
