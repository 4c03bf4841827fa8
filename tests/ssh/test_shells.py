"""Accounts as administrators make them: other login shells, forced commands, start-up files that read, few sessions."""

from __future__ import annotations

import shutil
import socket
import sys
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from local.bundle import pack
from local.errors import LinkLost, Unreachable
from local.follow import follow
from local.host import Host
from local.links.base import Command
from local.runs import stop
from remote.schema import StatusAnswer, StatusRequest
from tests.running import Lab
from tests.ssh import keys, sshd
from tests.ssh.servers import needs_openssh
from tests.ssh.test_links import ECHO, HOSTILE

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from local.links.ssh import SshLink
    from tests.ssh.servers import Server

pytestmark = [needs_openssh, pytest.mark.skipif(sshd.program() is None, reason="needs a real sshd")]

TRUE = Command(("true",))
BARE = pack(None, {"pkg/mod.py": "x = 1\n"})
# Each program as sshd calls an account's login shell, before -c: those that are not installed are skipped.
SHELLS = ("sh", "bash", "dash", "zsh", "ksh", "mksh", "busybox sh", "fish", "tcsh", "csh")


@contextmanager
def linked(folder: Path, more: str = "") -> Iterator[tuple[Server, SshLink]]:
    folder.mkdir(exist_ok=True)
    with sshd.running(folder, more=more) as server:
        made = server.link()
        try:
            yield server, made
        finally:
            made.close()


@pytest.fixture(scope="module", params=SHELLS)
def shell(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SshLink]:
    """A link to an account of that login shell: sshd hands it the command as it does an account's own shell."""
    name, *more = request.param.split()
    program = shutil.which(name)
    if program is None:
        pytest.skip(f"{name} is not installed")
    forced = f'ForceCommand exec {" ".join((program, *more))} -c "$SSH_ORIGINAL_COMMAND"'
    with linked(tmp_path_factory.mktemp(name), forced) as (_, link):
        link.reconnect()
        yield link


def test_hostile_words_through_every_login_shell(shell: SshLink) -> None:
    words = [*HOSTILE, "a!b", "!!", "a\\b", "\\'!\n", "a\\", "=ls", "%1", "^a^b", "~+", "=", "\n", "\\\\"]
    answer = shell.run(Command((sys.executable, "-I", "-c", ECHO, *words)))
    assert answer.stdout.decode().split("\0") == words


def test_exit_codes_and_input_through_every_login_shell(shell: SshLink) -> None:
    assert shell.run(Command(("sh", "-c", "exit 42"))).code == 42
    assert shell.run(Command(("sh", "-c", "# !\nexit 43"))).code == 43
    assert shell.run(Command(("cat", "--", "-")), stdin=b"\0in").stdout == b"\0in"


def test_the_payload_through_every_login_shell(shell: SshLink, tmp_path: Path) -> None:
    host = Host(shell, name="gpu01", python=sys.executable, workdir=str(tmp_path / "it's a \\ folder!"))
    assert host.push(BARE)
    payload = pack(None, {})
    host.push(payload)
    request = StatusRequest(workdir=host.workdir)
    assert host.call("status", request, StatusAnswer, bundle=payload.id, deadline=60).runs == ()


def test_a_run_is_started_followed_and_stopped_through_every_login_shell(shell: SshLink, tmp_path: Path) -> None:
    lab = Lab(tmp_path, python=sys.executable, link=shell)
    try:
        run = lab.start("echo it is $((1 + 1)) grüße; echo done 1/1")
        told: list[bytes] = []
        ended = follow(
            lab.host, bundle=lab.bundle, workdir=lab.workdir, run=run.id, on_log=told.append, on_event=lambda _: None
        )
        assert ended is not None
        assert (ended.phase, b"".join(told).decode()) == ("done", "it is 2 grüße\ndone 1/1\n")
        lab.ended(run)
        endless = lab.start("echo up; sleep 600", name="endless")
        assert stop(lab.host, bundle=lab.bundle, run=endless.id).outcome == "stopped"
    finally:
        assert not lab.clean_up()


@pytest.mark.parametrize("program", ["rbash", "rksh"])
def test_restricted_shells_say_why_nothing_can_be_done(tmp_path: Path, program: str) -> None:
    """They run no program that is named by its path, and the payload is started so."""
    found = shutil.which(program)
    if found is None:
        pytest.skip(f"{program} is not installed")
    with linked(tmp_path / "sshd", f'ForceCommand exec {found} -c "$SSH_ORIGINAL_COMMAND"') as (_, link):
        assert link.run(TRUE).code == 0
        host = Host(link, name="gpu01", python=sys.executable, workdir=str(tmp_path / "work"))
        with pytest.raises(Unreachable, match="login shell is a restricted one") as caught:
            host.reach()
        assert "chsh" in caught.value.remedy


@pytest.mark.parametrize("line", ["read answer", "cat >/dev/null", "read -p 'Sure? ' -n 1 a", "exec </dev/null"])
def test_start_up_files_that_read_are_named(tmp_path: Path, line: str) -> None:
    with linked(tmp_path / "sshd") as (server, link):
        host = Host(link, name="gpu01", python=sys.executable, workdir=str(tmp_path / "work"))
        payload = pack(None, {})
        host.push(payload)
        (server.home / ".bashrc").write_text(f"echo hello\n{line}\n")
        host.reach()  # it sends nothing, so that nothing can be taken from it
        with pytest.raises(Unreachable, match="reads the input of every command") as caught:
            host.push(BARE)
        assert ".bashrc" in caught.value.remedy
        assert not caught.value.transient
        with pytest.raises(Unreachable, match="reads the input of every command"):
            host.call("status", StatusRequest(workdir=host.workdir), StatusAnswer, bundle=payload.id, deadline=60)


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ("ForceCommand echo This account is for tunnels only; exit 1", "it said 'This account is for tunnels only'"),
        ("ForceCommand /bin/false", "ends before it runs any command: exit code 1"),
        ("ForceCommand internal-sftp", "does not behave|ends before it runs any command"),
        ("MaxSessions 0", "the server lets us in and opens no session"),
    ],
)
def test_accounts_that_run_no_commands(tmp_path: Path, more: str, says: str) -> None:
    with linked(tmp_path / "sshd", more) as (_, link):
        host = Host(link, name="gpu01", python=sys.executable, workdir=str(tmp_path / "work"))
        with pytest.raises((Unreachable, LinkLost), match=says):
            host.reach(deadline=5.0)


def test_one_session_at_a_time_is_enough(tmp_path: Path) -> None:
    with linked(tmp_path / "sshd", "MaxSessions 1\nPermitTTY no\nAllowAgentForwarding no\n") as (_, link):
        for number in range(20):
            assert link.run(Command(("echo", str(number)))).stdout == f"{number}\n".encode()
        with link.stream(Command(("cat",)), stdin=b"beside") as stream:
            assert link.run(TRUE).code == 0
            assert stream.read(10) == b"beside"


def test_many_hosts_at_a_server_that_lets_in_few_at_once(tmp_path: Path) -> None:
    folder = tmp_path / "sshd"
    folder.mkdir()
    with sshd.running(folder, more="MaxStartups 4") as server:
        links = [server.link() for _ in range(10)]
        codes: list[int | None] = []
        threads = [threading.Thread(target=lambda link=link: codes.append(link.run(TRUE).code)) for link in links]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for link in links:
            link.close()
        assert codes == [0] * 10
        assert len(server.pins.read_text().splitlines()) == 1


@pytest.mark.parametrize("kind", ["rsa", "ecdsa"])
def test_servers_with_one_type_of_host_key(tmp_path: Path, kind: str) -> None:
    folder = tmp_path / "sshd"
    folder.mkdir()
    keys.key(folder / "host_key", "-t", kind)
    with linked(folder) as (_, link):
        assert link.run(TRUE).code == 0
        assert keys.fingerprint(folder / "host_key") in link.notices[0]


def test_a_server_that_hangs_up_says_its_last_word(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def refuse() -> None:
            for _ in range(3):
                near, _ = listener.accept()
                near.sendall(b"Not today, the machine is being serviced.\r\n")
                near.close()

        thread = threading.Thread(target=refuse)
        thread.start()
        folder = tmp_path / "sshd"
        folder.mkdir()
        with (
            sshd.running(folder) as server,
            pytest.raises(Unreachable, match="Not today, the machine is being serviced"),
        ):
            server.link(port=listener.getsockname()[1]).run(TRUE)
        thread.join(10)
