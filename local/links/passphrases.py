"""Passphrases of locked keys: asked for at the terminal, once per key for all hosts, kept as the open key in memory."""

from __future__ import annotations

import atexit
import contextlib
import getpass
import os
import sys
import termios
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from local.links.identities import WrongPassphrase

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from local.links.identities import Identity

TRIES = 3  # as OpenSSH's NumberOfPasswordPrompts
NOBODY = "needs its passphrase: load it into ssh-agent with ssh-add; there is no terminal to ask for it at"


class Locked(Exception):
    """The key stays locked; the message says why."""


def ask(question: str) -> str:
    """Ask at the terminal; its echo comes back even where the program ends before the answer."""
    with _echo_again():
        return getpass.getpass(question)


def terminal() -> bool:
    """Tell whether somebody sits at a terminal."""
    return sys.stdin is not None and sys.stdin.isatty()


@dataclass
class Keyring:
    """Opens locked keys; every host of the process asks the same one."""

    ask: Callable[[str], str] = ask
    terminal: Callable[[], bool] = terminal
    _open: dict[Path, Any] = field(default_factory=dict)
    _why: dict[Path, str] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def key(self, identity: Identity, *, batch: bool) -> Any:
        """Give the open key; raises Locked. Hosts that come meanwhile wait for the one answer."""
        if not batch and not self.terminal():
            raise Locked(NOBODY)
        if batch:
            raise Locked("needs its passphrase, and ssh_config's BatchMode forbids to ask: load it with ssh-add")
        with self._lock:
            if identity.path not in self._open and identity.path not in self._why:
                self._settle(identity)
            if why := self._why.get(identity.path):
                raise Locked(why)
            return self._open[identity.path]

    def _settle(self, identity: Identity) -> None:
        """Ask until the key opens, or has been asked for often enough."""
        for _ in range(TRIES):
            try:
                passphrase = self.ask(f"Passphrase for {identity.path}: ")
            except (EOFError, OSError) as error:
                self._why[identity.path] = f"no passphrase was given ({str(error) or 'end of input'})"
                return
            if not passphrase:
                self._why[identity.path] = "no passphrase was given"
                return
            try:
                self._open[identity.path] = identity.key(passphrase)
            except WrongPassphrase:
                continue
            except ValueError as error:
                self._why[identity.path] = str(error)
            return
        self._why[identity.path] = f"the passphrase was wrong {TRIES} times"


KEYRING = Keyring()


@contextlib.contextmanager
def _echo_again() -> Iterator[None]:
    """Bring the terminal's settings back at the end: of the question, or of the program if that comes first."""
    try:
        descriptor = os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY)
    except OSError:  # no terminal of our own: getpass takes standard input
        yield
        return
    before = termios.tcgetattr(descriptor)

    def restore() -> None:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)

    atexit.register(restore)
    try:
        yield
    finally:
        atexit.unregister(restore)
        restore()
        os.close(descriptor)
