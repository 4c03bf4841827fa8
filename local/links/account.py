"""The account of an authentication that failed: which keys were offered, which could not be, what the server said."""

from __future__ import annotations

from dataclasses import dataclass, field

import paramiko


@dataclass
class Account:
    """What was tried to be let in, and what the server said to it."""

    offered: list[str] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    methods: tuple[str, ...] = ()  # what the server would take instead
    further: tuple[str, ...] = ()  # what it wants besides a key that it took
    farewell: str = ""  # its last word, when it closed the connection
    banner: str = ""
    forbidden: bool = False  # ssh_config lets no key be offered

    def __str__(self) -> str:
        parts = [f"offered {', '.join(self.offered)}" if self.offered else "no key was offered"]
        if self.skipped:
            parts.append(f"not usable: {'; '.join(self.skipped)}")
        if self.methods:
            parts.append(f"the server takes {', '.join(self.methods)}")
        if self.farewell:
            parts.append(f"it closed the connection: {self.farewell}")
        if self.banner:
            parts.append(f"it says: {self.banner}")
        return "; ".join(parts)


class Refused(paramiko.AuthenticationException):
    """No key was let in."""

    def __init__(self, account: Account) -> None:
        super().__init__(str(account))
        self.account = account


def remedy(account: Account) -> str:
    """Say what to do about it."""
    if account.forbidden:
        return (
            "ssh_config forbids keys for this host (PubkeyAuthentication, PreferredAuthentications): allow publickey."
        )
    if account.further:
        ways = ", ".join(account.further)
        return (
            f"The server took a key and wants {ways} besides, which nobody is there to answer when a link is made anew "
            "in the night: have this account let in by key alone."
        )
    if account.farewell and account.offered:
        return (
            "It counts every key that is offered (sshd's MaxAuthTries): name the right one as `identity_file`, and set "
            "IdentitiesOnly yes for the host in ssh_config."
        )
    if account.methods and "publickey" not in account.methods:
        return (
            f"The server takes no keys, only {', '.join(account.methods)}, and we never ask for a password: have "
            "PubkeyAuthentication allowed there and your public key put into authorized_keys."
        )
    return "Name the right `user` and `identity_file`, or have the key put into the host's authorized_keys."
