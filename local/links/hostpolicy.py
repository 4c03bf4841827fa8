"""Where Paramiko asks whether a host is the one that we mean."""

from __future__ import annotations

from typing import TYPE_CHECKING

import paramiko

from local.errors import HostKeyError
from local.links import algorithms, hostcerts, hostkeys
from local.links.knownhosts import Key

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from local.links.hops import Resolved


class Policy(paramiko.MissingHostKeyPolicy):
    """Judges every key: the client is given no known keys of its own, so that it asks us each time."""

    def __init__(self, hop: Resolved, where: str, notice: Callable[[str], None], pin_file: Path) -> None:
        self._hop = hop
        self._where = where
        self._notice = notice
        self._pin_file = pin_file

    def missing_host_key(self, client: paramiko.SSHClient, hostname: str, key: paramiko.PKey) -> None:  # noqa: ARG002
        """Let a key pass or raise HostKeyError."""
        hop = self._hop
        trust = hostkeys.Trust(
            files=hop.known_hosts,
            pin_file=self._pin_file,
            strict=hop.strict,
            revoked=hop.revoked,
            signatures=algorithms.signatures(hop),
            where=self._where,
        )
        self._check_size(key)
        if said := hostkeys.verify(hop.known_as, _plain(key), trust, self._certificate(key)):
            self._notice(said)

    def _certificate(self, key: paramiko.PKey) -> hostcerts.Certificate | None:
        shown = getattr(key, "public_blob", None)
        try:
            return hostcerts.read(shown.key_blob) if shown else None
        except hostcerts.NotACertificate as error:
            raise HostKeyError(f"the certificate of {self._hop.known_as}: {error}", where=self._where) from error

    def _check_size(self, key: paramiko.PKey) -> None:
        if key.get_name() == "ssh-rsa" and key.get_bits() < self._hop.smallest_rsa:
            raise HostKeyError(
                f"the RSA host key of {self._hop.known_as} has only {key.get_bits()} bits: "
                f"{self._hop.smallest_rsa} are required",
                remedy="Have the host make a new key (ssh-keygen -t ed25519), or lower RequiredRSASize in ssh_config.",
                where=self._where,
            )


def _plain(key: paramiko.PKey) -> Key:
    return Key(key.get_name(), key.asbytes())
