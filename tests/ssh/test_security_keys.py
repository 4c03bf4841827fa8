"""Security keys (FIDO, `sk-`) that an agent holds: it signs with them, and they stand in no other key's way.

The device is a program here: it signs as a real one does, or refuses, or waits for a finger that never comes.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import socket
import socketserver
import threading
import time
from typing import TYPE_CHECKING

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from local.errors import Unreachable
from local.links import agents
from local.links.base import Command
from local.links.ssh import open_link
from tests.ssh import keys, sshd
from tests.ssh.servers import needs_openssh

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.ssh.servers import Server

pytestmark = [needs_openssh, pytest.mark.skipif(sshd.program() is None, reason="needs a real sshd")]
TRUE = Command(("true",))
KIND, APPLICATION = b"sk-ssh-ed25519@openssh.com", b"ssh:"
IDENTITIES, IDENTITIES_ANSWER, SIGN, SIGNED, FAILURE = 11, 12, 13, 14, 5
TOUCHED = b"\x01" + (7).to_bytes(4)  # somebody was there, and a counter


def field(value: bytes) -> bytes:
    return len(value).to_bytes(4) + value


class Device(socketserver.ThreadingUnixStreamServer):
    """An agent that holds one security key, and before or behind it what another agent holds."""

    daemon_threads = True

    def __init__(self, path: Path, behind: Path | None, does: str) -> None:
        self._key = Ed25519PrivateKey.generate()
        raw = self._key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
        self.blob = field(KIND) + field(raw) + field(APPLICATION)
        self.behind = behind
        self.does = does
        self.asked = 0
        self.given_up = threading.Event()
        super().__init__(str(path), _Handler)

    @property
    def public(self) -> str:
        return f"{KIND.decode()} {base64.b64encode(self.blob).decode()} device"

    def answer(self, asked: bytes) -> bytes:
        if asked[0] == IDENTITIES:
            others = self._pass_on(asked) if self.behind else bytes([IDENTITIES_ANSWER]) + bytes(4)
            count = int.from_bytes(others[1:5]) + 1
            return bytes([IDENTITIES_ANSWER]) + count.to_bytes(4) + field(self.blob) + field(b"device") + others[5:]
        if asked[0] == SIGN and asked[5:].startswith(self.blob):
            self.asked += 1
            return self._signed(asked[5 + len(self.blob) :])
        return self._pass_on(asked) if self.behind else bytes([FAILURE])

    def _signed(self, rest: bytes) -> bytes:
        if self.does == "signs":
            data = rest[4 : 4 + int.from_bytes(rest[:4])]
            seen = hashlib.sha256(APPLICATION).digest() + TOUCHED + hashlib.sha256(data).digest()
            return bytes([SIGNED]) + field(field(KIND) + field(self._key.sign(seen)) + TOUCHED)
        if self.does == "waits":
            self.given_up.wait(60)
        return bytes([FAILURE])

    def _pass_on(self, asked: bytes) -> bytes:
        with socket.socket(socket.AF_UNIX) as agent:
            agent.connect(str(self.behind))
            agent.sendall(field(asked))
            return _message(agent) or bytes([FAILURE])


class _Handler(socketserver.BaseRequestHandler):
    server: Device

    def handle(self) -> None:
        while asked := _message(self.request):
            try:
                self.request.sendall(field(self.server.answer(asked)))
            except OSError:
                return


def _message(sock: socket.socket) -> bytes:
    with contextlib.suppress(OSError), sock.makefile("rb") as file:
        size = file.read(4)
        return file.read(int.from_bytes(size)) if len(size) == 4 else b""
    return b""


@pytest.fixture
def device(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Iterator[Device]:
    """Give an agent with a security key in front of a real one, which is empty until a test fills it."""
    with keys.agent(tmp_path / "agent") as behind, Device(tmp_path / "device", behind, request.param) as made:
        monkeypatch.setenv("SSH_AUTH_SOCK", str(tmp_path / "device"))
        thread = threading.Thread(target=made.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield made
        finally:
            made.given_up.set()
            made.shutdown()
            thread.join()


@pytest.mark.parametrize("device", ["waits", "refuses"], indirect=True)
def test_a_security_key_stands_in_no_other_keys_way(sshd_server: Server, device: Device) -> None:
    assert device.behind is not None
    keys.add(device.behind, sshd_server.identity)
    link = sshd_server.link(identity_file=None)
    assert link.run(TRUE).code == 0
    link.close()
    assert device.asked == 0, "nobody's finger is wanted where another key opens the host"


@pytest.mark.parametrize("device", ["signs"], indirect=True)
def test_an_agent_signs_with_a_security_key(tmp_path: Path, device: Device) -> None:
    folder = tmp_path / "sshd"
    folder.mkdir()
    with sshd.running(folder) as server:
        (folder / "authorized_keys").write_text(device.public + "\n")
        link = server.link(identity_file=None)
        assert link.run(TRUE).code == 0
        link.close()
    assert device.asked == 1


@pytest.mark.parametrize("device", ["refuses"], indirect=True)
def test_a_security_key_that_does_not_sign_is_in_the_account(sshd_server: Server, device: Device) -> None:
    with pytest.raises(Unreachable, match=r"agent: device .the agent does not sign with it") as caught:
        sshd_server.link(identity_file=None).run(TRUE)
    assert device.asked == 1
    assert not caught.value.transient


@pytest.mark.parametrize("device", ["waits"], indirect=True)
def test_a_finger_that_never_comes_holds_nobody_up(
    sshd_server: Server, device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agents, "SIGNING", 1.0)
    began = time.monotonic()
    with pytest.raises(Unreachable, match="gave no signature in 1 s: its security key was not touched"):
        sshd_server.link(identity_file=None).run(TRUE)
    assert time.monotonic() - began < 30.0
    assert device.asked == 1


@pytest.mark.parametrize("device", ["waits", "refuses"], indirect=True)
def test_a_named_security_key_that_does_not_sign_ends_no_connection(
    sshd_server: Server, device: Device, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is tried first, as it was asked for; the key file behind it opens the host on the same connection."""
    monkeypatch.setattr(agents, "SIGNING", 1.0)
    (tmp_path / "sk").write_text(device.public + "\n")
    config = tmp_path / "config"
    config.write_text(
        f"Host *\n UserKnownHostsFile none\n IdentityFile {tmp_path}/sk\n IdentityFile {sshd_server.identity}\n"
    )
    link = open_link(sshd_server.settings(identity_file=None), ssh_config=str(config), pin_file=tmp_path / "pins")
    assert link.run(TRUE).code == 0
    link.close()
    assert device.asked == 1
