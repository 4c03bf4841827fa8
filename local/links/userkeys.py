"""The keys with which a user is let in: named files first, then the agent's, and an account of what was tried."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import paramiko
from paramiko.auth_strategy import AuthFailure, AuthStrategy, InMemoryPrivateKey
from paramiko.pkey import PublicBlob

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from local.links.sshconfig import Resolved

LOST = ("shut down", "EOF", "timeout", "No existing session", "not active")


class UserKeys(AuthStrategy):
    """Offers a hop's keys one after the other; `skipped` says which files could not be used and why."""

    def __init__(self, hop: Resolved) -> None:
        super().__init__(ssh_config=paramiko.SSHConfig())
        self._hop = hop
        self.skipped: list[str] = []

    def get_sources(self) -> Iterator[InMemoryPrivateKey]:
        """Give the keys in the order in which they are offered, none twice."""
        agent = paramiko.Agent()  # asked for signatures only, never forwarded
        try:
            held = {key.asbytes(): key for key in agent.get_keys()}
            offered: set[bytes] = set()
            for key in (*self._named(held), *(() if self._hop.identities_only else held.values())):
                if key.asbytes() not in offered:
                    offered.add(key.asbytes())
                    yield InMemoryPrivateKey(self._hop.user, key)
        finally:
            agent.close()

    def _named(self, held: dict[bytes, Any]) -> Iterator[Any]:
        for path in dict.fromkeys(self._hop.identities):
            if path.suffix == ".pub" or not path.exists():
                public = path
                if not path.exists() and self._hop.asks_for(path):
                    self.skipped.append(f"{path} (does not exist)")
            elif (key := self._load(path)) is not None:
                yield key
                continue
            else:
                public = path.with_name(f"{path.name}.pub")
            with contextlib.suppress(OSError, ValueError, IndexError, paramiko.SSHException):
                blob = PublicBlob.from_file(str(public)).key_blob
                if blob in held:
                    yield held[blob]

    def _load(self, path: Path) -> Any:
        try:
            return paramiko.PKey.from_path(path)
        except OSError as error:
            self.skipped.append(f"{path} ({error.strerror})")
        except Exception as error:  # noqa: BLE001 - every key format has errors of its own
            locked = isinstance(error, paramiko.PasswordRequiredException) or "assword" in str(error)
            why = (
                "needs its passphrase: load it into ssh-agent with ssh-add" if locked else f"not a usable key: {error}"
            )
            self.skipped.append(f"{path} ({why})")
        return None


def lost(failure: AuthFailure) -> bool:
    """Tell whether the link was lost while keys were tried: no key was refused then."""
    return any(word in str(result.result) for result in failure.result[:1] for word in LOST)


def tried(failure: AuthFailure) -> str:
    """Say which keys were offered and which could not be."""
    offered = [
        f"{result.source.pkey.get_name()} {result.source.pkey.fingerprint}"
        for result in failure.result
        if isinstance(result.source, InMemoryPrivateKey) and not any(word in str(result.result) for word in LOST)
    ]
    parts = [f"offered {', '.join(offered)}" if offered else "no key was offered"]
    strategy = failure.result.strategy
    if isinstance(strategy, UserKeys) and strategy.skipped:
        parts.append(f"not usable: {'; '.join(strategy.skipped)}")
    return "; ".join(parts)
