"""The demo's loopback host: started once, by a real sshd or the embedded server, and ended by identity, not by pid."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from typing import TYPE_CHECKING

import pytest

from local.demo import host, material, sshd
from local.demo.place import ALIAS, Place
from local.errors import UsageError
from local.links.base import Command
from local.links.settings import SshSettings
from local.links.ssh import SshLink, open_link

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    monkeypatch.setenv("PRUDENT_GATE_STATE", str(tmp_path / "state"))
    root = tmp_path / "demo"
    root.mkdir()
    made = Place(root)
    yield made
    host.down(made)


def link_to(place: Place, **changes: str) -> SshLink:
    settings = SshSettings(name="demo", address=ALIAS, alias=ALIAS, host_key="strict", **changes)  # type: ignore[arg-type]
    return open_link(settings, ssh_config=str(place.ssh_config))


def run(place: Place, *words: str, stdin: bytes = b"") -> tuple[int | None, bytes, bytes]:
    link = link_to(place)
    try:
        answer = link.run(Command(words), stdin=stdin)
    finally:
        link.close()
    return answer.code, answer.stdout, answer.stderr


@pytest.mark.parametrize("embedded", [False, True])
def test_up_starts_once_and_down_ends(place: Place, *, embedded: bool) -> None:
    if not embedded and sshd.find() is None:
        pytest.skip("no sshd here")
    server, fresh = host.up(place, embedded=embedded)
    assert (server.kind, fresh) == ("embedded" if embedded else "sshd", True)
    assert host.up(place, embedded=embedded) == (server, False)
    assert run(place, "printf", "%s", "it's") == (0, b"it's", b"")
    ended = host.down(place)
    assert ended == server
    assert host.running(place) is None
    assert host.down(place) is None
    again, _ = host.up(place, embedded=embedded)
    assert again.port == server.port, "the port is remembered, so that what names it stays true"
    assert again.pid != server.pid


def test_keys_are_private_pinned_and_kept(place: Place) -> None:
    host.up(place, embedded=True)
    for file in (place.host_key, place.user_key, place.authorized_keys, place.ssh_config):
        assert file.stat().st_mode & 0o077 == 0
    before = place.host_key.read_bytes()
    host.down(place)
    host.up(place, embedded=True)
    assert place.host_key.read_bytes() == before
    assert ALIAS in place.known_hosts.read_text()


def test_down_never_ends_a_process_that_got_the_pid(place: Place) -> None:
    with subprocess.Popen(["sleep", "60"]) as stranger:
        account = {"kind": "sshd", "port": 1, "pid": stranger.pid, "started": "1"}
        place.account.write_text(json.dumps(account))
        assert host.down(place) is None
        assert stranger.poll() is None
        stranger.kill()


@pytest.mark.parametrize("text", ["", "{", "[]", '{"kind": 1}', "null"])
def test_a_torn_account_is_no_server(place: Place, text: str) -> None:
    place.account.write_text(text)
    assert host.running(place) is None


def test_the_embedded_server_is_like_sshd(place: Place) -> None:
    host.up(place, embedded=True)
    data = bytes(range(256)) * 4096
    assert run(place, "cat", stdin=data) == (0, data, b"")
    assert run(place, "sh", "-c", "echo out; echo err >&2; exit 42") == (42, b"out\n", b"err\n")
    assert run(place, "sh", "-c", "kill -9 $$")[0] is None
    code, names, _ = run(place, "env")
    assert code == 0
    assert not {b"PYTHONPATH", b"VIRTUAL_ENV"} & {line.partition(b"=")[0] for line in names.splitlines()}


def test_a_cut_closes_the_streams_and_spares_what_is_detached(place: Place, tmp_path: Path) -> None:
    host.up(place, embedded=True)
    attached, detached = tmp_path / "attached", tmp_path / "detached"
    script = (
        f"setsid sleep 60 </dev/null >/dev/null 2>&1 & echo $! > {detached}; echo $$ > {attached}; "
        "while echo on; do sleep 0.05; done"
    )
    link = link_to(place)
    stream = link.stream(Command(("sh", "-c", script)))
    assert stream.read(20) == b"on\n"
    stream.close()
    link.close()
    gone = _wait_until_gone(int(attached.read_text()))
    left = int(detached.read_text())
    assert gone, "writing to a stream that nobody reads ends the command"
    os.kill(left, 0)
    os.kill(left, signal.SIGKILL)


def test_material_needs_the_stack(place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PRUDENT_GATE_CACHE", str(tmp_path / "cache"))
    with pytest.raises(UsageError) as caught:
        material.ensure(place)
    assert caught.value.remedy == "Run: make stack"


def _wait_until_gone(pid: int) -> bool:
    until = time.monotonic() + 20
    while time.monotonic() < until:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.05)
    return False
