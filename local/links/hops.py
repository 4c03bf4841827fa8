"""One machine on the way to a host, with all that ssh_config and the inventory say about reaching it."""

from __future__ import annotations

import math
import socket
from dataclasses import dataclass, field
from pathlib import Path  # noqa: TC003 - dataclasses keep their fields' types
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

PORT = 22
CONNECT_TIMEOUT = 15.0
BEAT = 5.0  # seconds between two probes of a connection
SILENCE = 10.0  # an unanswered probe means after this long that the link is dead
DEFAULT_KEYS = ("id_ed25519", "id_ecdsa", "id_rsa")
USUAL_KEYS = {*DEFAULT_KEYS, "id_ecdsa_sk", "id_ed25519_sk", "id_xmss", "id_dsa"}


@dataclass(frozen=True, kw_only=True, slots=True)
class Resolved:
    """One hop, ready to be dialled. `jumps` are hops before it, first one first, as `[user@]host[:port]`."""

    host: str
    port: int = PORT
    user: str
    identities: tuple[Path, ...] = ()
    identities_only: bool = False
    own_key: Path | None = None  # the key that the inventory names
    certificates: tuple[Path, ...] = ()
    agent: str | None = None  # its socket; None is the environment's, "" is none at all
    public_keys: bool = True  # whether keys may be offered at all
    batch: bool = False  # nobody is to be asked for a passphrase
    jumps: tuple[str, ...] = ()
    known_hosts: tuple[Path, ...] = ()
    host_key_alias: str | None = None
    strict: bool = False
    revoked: Path | None = None
    smallest_rsa: int = 1024  # bits of a key
    proxy_command: str | None = None
    connect_timeout: float = CONNECT_TIMEOUT
    bind_address: str | None = None
    family: int = socket.AF_UNSPEC
    algorithms: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # what ssh_config chose, by option
    alive_every: float = math.inf  # seconds between two probes, at most
    alive_within: float = math.inf  # seconds in which one must be answered
    lent: str | None = None  # the socket of the agent that is forwarded
    notes: tuple[str, ...] = ()

    @property
    def known_as(self) -> str:
        """Give the name under which known_hosts files know this host."""
        host = (self.host_key_alias or self.host).lower()
        return host if self.port == PORT or self.host_key_alias else f"[{host}]:{self.port}"

    def asks_for(self, key: Path) -> bool:
        """Tell whether somebody named this key: OpenSSH adds the usual ones by itself, whether they exist or not."""
        return key == self.own_key or key.name not in USUAL_KEYS

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.user}@{host}:{self.port}"
