"""Many hosts on one loopback: each an sshd of its own with port, keys and home; and some that are none."""

from __future__ import annotations

import contextlib
import shutil
import socket
import threading
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.ssh import sshd
from tests.ssh.servers import USER, dead_port, make_key

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.ssh.servers import Server


@dataclass(frozen=True, kw_only=True)
class Member:
    """One entry of the inventory: where it is, and the home folder of its user (None where nobody gets in)."""

    name: str
    port: int
    identity: Path
    home: Path | None = None
    pid: int | None = None

    def entry(self, **settings: str) -> str:
        """Give its table of the inventory; `settings` are further lines, their values quoted here."""
        more = "".join(f'{key} = "{value}"\n' for key, value in settings.items())
        return (
            f'[hosts.{self.name}]\naddress = "127.0.0.1"\nport = {self.port}\nuser = "{USER}"\n'
            f'identity_file = "{self.identity}"\n{more}'
        )


@contextlib.contextmanager
def running(folder: Path, count: int) -> Iterator[list[Member]]:
    """Run `count` hosts whose user keys are one; their homes are folders of their own."""
    keys = folder / "keys"
    keys.mkdir(parents=True)
    make_key(keys / "user_key")
    with contextlib.ExitStack() as servers:
        yield [_member(f"node{number:02d}", servers, folder, keys) for number in range(count)]


def _member(name: str, servers: contextlib.ExitStack, folder: Path, keys: Path) -> Member:
    own = folder / name
    own.mkdir()
    for key in ("user_key", "user_key.pub"):
        shutil.copy(keys / key, own / key)
    server: Server = servers.enter_context(sshd.running(own))
    return Member(name=name, port=server.port, identity=server.identity, home=server.home, pid=server.pid)


def dead(identity: Path, name: str = "dead") -> Member:
    """Give a host on whose port nothing listens."""
    return Member(name=name, port=dead_port(), identity=identity)


@contextlib.contextmanager
def mute(identity: Path, name: str = "mute") -> Iterator[Member]:
    """Give a host that takes connections and never says a word."""
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        yield Member(name=name, port=server.getsockname()[1], identity=identity)


@contextlib.contextmanager
def rude(identity: Path, name: str = "rude") -> Iterator[Member]:
    """Give a host that hangs up on whoever calls, as an sshd does beyond its MaxStartups."""
    server = socket.create_server(("127.0.0.1", 0))

    def hang_up() -> None:
        with contextlib.suppress(OSError):
            while True:
                server.accept()[0].close()

    thread = threading.Thread(target=hang_up, daemon=True)
    thread.start()
    try:
        yield Member(name=name, port=server.getsockname()[1], identity=identity)
    finally:
        server.shutdown(socket.SHUT_RDWR)
        server.close()
        thread.join(10)
