"""What happens when networks do what they do: cut, stalled, refused, silent, back again."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

from local.errors import LinkLost, Unreachable
from local.links import connection, ssh
from local.links.base import Command
from tests.running import until
from tests.ssh import sshd
from tests.ssh.servers import dead_port, make_key

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    import psutil

    from local.links.ssh import SshLink
    from tests.ssh.proxy import Proxy
    from tests.ssh.servers import Server

ECHO = Command(("echo", "here"))


@pytest.fixture
def link(sshd_server: Server, proxy: Proxy, tmp_path: Path) -> Iterator[SshLink]:
    made = sshd_server.link(port=proxy.port, connect_timeout=15, banner_timeout=15, pin_file=tmp_path / "pins")
    yield made
    made.close()


def while_it_sleeps(folder: Path, act: Callable[[], Any]) -> tuple[Command, threading.Thread]:
    """Give a command that sleeps, and who does something once it has begun."""
    mark = folder / "begun"

    def wait() -> None:
        until(mark.exists, "the command")
        act()

    acting = threading.Thread(target=wait)
    acting.start()
    return Command(("sh", "-c", f"touch '{mark}'; exec sleep 6")), acting


def test_one_connection_serves_many_commands(link: SshLink, proxy: Proxy) -> None:
    for _ in range(12):
        assert link.run(ECHO).stdout == b"here\n"
    assert proxy.accepted == 1


def test_a_cut_under_a_command_is_a_lost_link(link: SshLink, proxy: Proxy, tmp_path: Path) -> None:
    link.run(ECHO)
    sleep, cutter = while_it_sleeps(tmp_path, proxy.cut)
    with pytest.raises(LinkLost, match="broke"):
        link.run(sleep)
    cutter.join()


def test_a_lost_link_names_its_host(sshd_server: Server, link: SshLink, proxy: Proxy) -> None:
    link.run(ECHO)
    proxy.stall()
    with pytest.raises(LinkLost) as caught:
        link.run(ECHO, deadline=0.2)
    assert caught.value.where == sshd_server.kind
    assert caught.value.exit_code == 75


def test_after_a_cut_the_next_command_connects_anew(link: SshLink, proxy: Proxy) -> None:
    link.run(ECHO)
    proxy.cut()
    with contextlib.suppress(LinkLost):
        link.run(ECHO)  # the cut may be seen before the command starts, or only by it
    assert link.run(ECHO).stdout == b"here\n"
    assert proxy.accepted == 2


def test_a_stalled_link_is_left_at_the_deadline(link: SshLink, proxy: Proxy) -> None:
    link.run(ECHO)
    proxy.stall()
    begun = time.monotonic()
    with pytest.raises(LinkLost, match=r"within 0\.5 s"):
        link.run(ECHO, deadline=0.5)
    assert time.monotonic() - begun < 5
    proxy.resume()
    assert link.run(ECHO).stdout == b"here\n"


def test_a_stalled_link_is_noticed_long_before_a_long_deadline(
    link: SshLink, proxy: Proxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "BEAT", 0.1)
    monkeypatch.setattr(connection, "SILENCE", 3.0)  # a busy machine answers within that
    link.run(ECHO)
    sleep, staller = while_it_sleeps(tmp_path, proxy.stall)
    begun = time.monotonic()
    with pytest.raises(LinkLost, match="has not answered for 3 s"):
        link.run(sleep, deadline=600)
    assert time.monotonic() - begun < 30
    staller.join()


def test_a_stalled_upload_is_left_too(link: SshLink, proxy: Proxy) -> None:
    link.run(ECHO)
    proxy.stall()
    begun = time.monotonic()
    with pytest.raises(LinkLost):
        link.run(Command(("cat",)), stdin=b"x" * 2**24, deadline=0.5)
    assert time.monotonic() - begun < 5
    proxy.resume()


def test_a_stream_that_is_cut_is_lost_not_ended(link: SshLink, proxy: Proxy) -> None:
    with link.stream(Command(("sh", "-c", "echo first; exec sleep 6"))) as stream:
        assert stream.read(10) == b"first\n"
        proxy.cut()
        with pytest.raises(LinkLost, match="broke"):
            stream.read(10)


def test_a_stalled_stream_is_lost_after_its_timeout(link: SshLink, proxy: Proxy) -> None:
    with link.stream(Command(("sh", "-c", "while echo x; do sleep 0.05; done"))) as stream:
        assert stream.read(10)
        proxy.stall()
        with pytest.raises(LinkLost, match=r"nothing came for 0\.3 s"):
            while True:
                stream.read(0.3)


def test_reconnecting_ten_times(link: SshLink, proxy: Proxy) -> None:
    for _ in range(10):
        proxy.cut()
        link.reconnect()
        assert link.run(ECHO).stdout == b"here\n"


def test_a_killed_server_child_is_a_lost_link(sshd_server: Server, link: SshLink, tmp_path: Path) -> None:
    if sshd_server.kind != "sshd":
        pytest.skip("the embedded server has no process per connection")
    before = set(sshd.sessions(sshd_server))
    link.run(ECHO)
    mine = set(sshd.sessions(sshd_server)) - before
    assert mine
    sleep, killer = while_it_sleeps(tmp_path, lambda: [_kill(process) for process in mine])
    with pytest.raises(LinkLost, match="broke"):
        link.run(sleep)
    killer.join()
    assert link.run(ECHO).stdout == b"here\n"


@pytest.fixture
def strained(tmp_path: Path) -> Iterator[Server]:
    """A server that changes keys all the time and lets in one unauthenticated connection at once."""
    if sshd.program() is None:
        pytest.skip("needs an sshd of its own configuration")
    folder = tmp_path / "strained"
    folder.mkdir()
    with sshd.running(folder, more="RekeyLimit 1M\nMaxStartups 1\nMaxSessions 4") as server:
        yield server


def test_key_exchanges_under_load_do_no_harm(strained: Server) -> None:
    link = strained.link()
    data = bytes(range(256)) * 2**15
    for _ in range(4):
        assert link.run(Command(("cat",)), stdin=data, deadline=60).stdout == data
        assert link.run(ECHO).stdout == b"here\n"
    link.close()


def test_more_commands_than_sessions_one_after_the_other(strained: Server) -> None:
    link = strained.link()
    assert [link.run(ECHO).code for _ in range(12)] == [0] * 12
    link.close()


def test_a_server_that_lets_in_few_at_once_is_tried_again(strained: Server) -> None:
    hog = _occupy(strained)
    leaver = threading.Timer(0.2, hog.close)
    leaver.start()
    link = strained.link()
    assert link.run(ECHO).stdout == b"here\n"
    link.close()
    leaver.join()


def test_a_server_that_lets_nobody_in_is_left_with_the_right_word(strained: Server) -> None:
    with _occupy(strained), pytest.raises(Unreachable, match=r"no banner|broke the connection off") as caught:
        strained.link().run(ECHO)
    assert caught.value.transient
    assert "MaxStartups" in caught.value.remedy


def test_a_port_where_nothing_listens(sshd_server: Server) -> None:
    port = dead_port()
    begun = time.monotonic()
    with pytest.raises(Unreachable, match=rf"127\.0\.0\.1:{port} refuses connections") as caught:
        sshd_server.link(port=port).run(ECHO)
    assert caught.value.transient
    assert "port" in caught.value.remedy
    assert time.monotonic() - begun < 1


def test_an_address_where_nobody_answers(sshd_server: Server) -> None:
    link = sshd_server.link(address="192.0.2.1", connect_timeout=0.3)
    with pytest.raises(Unreachable, match=r"192\.0\.2\.1") as caught:
        link.run(ECHO)
    assert caught.value.exit_code == 4


def test_a_name_that_does_not_exist(sshd_server: Server) -> None:
    with pytest.raises(Unreachable, match="is not a known name") as caught:
        sshd_server.link(address="no-such-host.invalid").run(ECHO)
    assert "spelling" in caught.value.remedy


def test_a_server_that_never_says_a_word(sshd_server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ssh, "TRIES", 2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        link = sshd_server.link(port=silent.getsockname()[1], banner_timeout=0.4)
        begun = time.monotonic()
        with pytest.raises(Unreachable, match=r"silent|no banner") as caught:
            link.run(ECHO)
    assert caught.value.transient
    assert time.monotonic() - begun < 5


def test_a_server_that_speaks_something_else(sshd_server: Server) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        answering = threading.Thread(target=_answer_as_a_web_server, args=(server,))
        answering.start()
        with pytest.raises(Unreachable, match="something else than SSH") as caught:
            sshd_server.link(port=server.getsockname()[1]).run(ECHO)
        answering.join()
    assert not caught.value.transient


def test_a_key_that_the_host_does_not_know(sshd_server: Server, tmp_path: Path) -> None:
    wrong = make_key(tmp_path / "wrong")
    begun = time.monotonic()
    with pytest.raises(Unreachable, match="lets none of our keys in") as caught:
        sshd_server.link(identity_file=str(wrong)).run(ECHO)
    assert "SHA256:" in caught.value.message
    assert not caught.value.transient
    assert time.monotonic() - begun < 5


@pytest.mark.parametrize("content", [None, "", "no key\n"], ids=["missing", "empty", "garbage"])
def test_a_key_file_that_is_none(sshd_server: Server, tmp_path: Path, content: str | None) -> None:
    file = tmp_path / "key"
    if content is not None:
        file.write_text(content)
    with pytest.raises(Unreachable, match="no key was offered"):
        sshd_server.link(identity_file=str(file)).run(ECHO)


def test_a_jump_host_is_passed_through_and_verified(sshd_server: Server, tmp_path: Path) -> None:
    jump = f"{sshd_server.user}@localhost:{sshd_server.port}"
    link = sshd_server.link(jump=jump, pin_file=tmp_path / "pins")
    assert link.run(ECHO).stdout == b"here\n"
    link.close()
    assert [notice.split(" ")[0] for notice in link.notices] == [
        f"[localhost]:{sshd_server.port}", f"[127.0.0.1]:{sshd_server.port}"
    ]  # fmt: skip


def test_a_jump_host_that_refuses_is_named(sshd_server: Server) -> None:
    port = dead_port()
    with pytest.raises(Unreachable, match=f":{port} refuses connections"):
        sshd_server.link(jump=f"root@127.0.0.1:{port}").run(ECHO)


def test_a_target_that_its_jump_host_cannot_reach_is_named(sshd_server: Server) -> None:
    port = dead_port()
    jump = f"{sshd_server.user}@127.0.0.1:{sshd_server.port}"
    with pytest.raises(Unreachable, match=f":{port} is beyond its jump host's reach"):
        sshd_server.link(port=port, jump=jump).run(ECHO)


def _occupy(server: Server) -> socket.socket:
    """Take the only place for connections that are not let in yet; the fixture's own may still be leaving it."""
    while True:
        sock = socket.create_connection(("127.0.0.1", server.port))
        if sock.recv(4) == b"SSH-":
            return sock
        sock.close()


def _kill(process: psutil.Process) -> None:
    for member in (*process.children(recursive=True), process):
        if "sshd" in member.name():
            member.kill()


def _answer_as_a_web_server(server: socket.socket) -> None:
    near, _ = server.accept()
    with near:
        near.sendall(b"HTTP/1.0 400 Bad Request\r\n" * 200)
