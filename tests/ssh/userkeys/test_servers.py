"""Servers that want something else than a key, or more than one, or are busy."""

from __future__ import annotations

import socket
import threading
from typing import TYPE_CHECKING

import paramiko
import pytest

from local.errors import Denied
from local.links.ssh import open_link
from tests.ssh import keys, sshd
from tests.ssh.servers import needs_openssh
from tests.ssh.userkeys.making import TRUE, allow

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.ssh.servers import Server

pytestmark = [needs_openssh, pytest.mark.skipif(sshd.program() is None, reason="needs a real sshd")]


def test_a_server_that_takes_passwords_only(other_server: Callable[[str], Server]) -> None:
    server = other_server("Match all\n PubkeyAuthentication no\n PasswordAuthentication yes\n")
    with pytest.raises(Denied, match=r"the server takes password[\s\S]*takes no keys, only password"):
        server.link().run(TRUE)


def test_a_server_that_wants_a_second_step(other_server: Callable[[str], Server]) -> None:
    server = other_server("HostbasedAuthentication yes\nAuthenticationMethods publickey,hostbased\n")
    with pytest.raises(Denied, match="took a key and wants hostbased besides"):
        server.link().run(TRUE)


def test_a_server_that_wants_two_keys(other_server: Callable[[str], Server], tmp_path: Path) -> None:
    server = other_server("AuthenticationMethods publickey,publickey\n")
    second = keys.key(tmp_path / "second", "-t", "ed25519")
    allow(server, second)
    config = tmp_path / "config"
    config.write_text(f"Host *\n UserKnownHostsFile none\n IdentityFile {second}\n")
    made = open_link(server.settings(), ssh_config=str(config), pin_file=tmp_path / "pins")
    assert made.run(TRUE).code == 0
    made.close()


def test_a_banner_belongs_to_the_account(other_server: Callable[[str], Server], tmp_path: Path) -> None:
    (tmp_path / "banner").write_text("Keys are handed out by the front desk.\n")
    server = other_server(f"Banner {tmp_path}/banner\n")
    with pytest.raises(Denied, match="it says: Keys are handed out by the front desk"):
        server.link(identity_file=str(keys.key(tmp_path / "wrong", "-t", "ed25519"))).run(TRUE)


def test_a_busy_server_is_waited_for(other_server: Callable[[str], Server]) -> None:
    server = other_server("LoginGraceTime 2\nMaxStartups 1\n")
    with socket.create_connection(("127.0.0.1", server.port)):  # takes the one place there is, for two seconds
        made = server.link()
        assert made.run(TRUE).code == 0
        made.close()


class _Open(paramiko.ServerInterface):
    """Knows by other means who comes."""

    def check_auth_none(self, username: str) -> int:  # noqa: ARG002
        return paramiko.AUTH_SUCCESSFUL

    def get_allowed_auths(self, username: str) -> str:  # noqa: ARG002
        return "publickey"


def test_a_server_that_asks_for_no_key(server: Server, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        made = server.link(
            port=listener.getsockname()[1], identity_file=str(tmp_path / "missing"), pin_file=tmp_path / "pins"
        )
        errors: list[Exception] = []

        def connect() -> None:
            try:
                made.reconnect()
            except Exception as error:  # noqa: BLE001 - told by the test
                errors.append(error)

        thread = threading.Thread(target=connect)
        thread.start()
        near, _ = listener.accept()
        transport = paramiko.Transport(near)
        transport.add_server_key(paramiko.ECDSAKey.generate())
        transport.start_server(server=_Open())
        thread.join(20)
        made.close()
        transport.close()
        transport.join(5)
        assert errors == []
