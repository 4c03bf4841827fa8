"""The payload's way onto a host: its Python found, a bundle pushed, a verb called, over a real SSH server."""

from __future__ import annotations

import hashlib
import io
import json
import shutil
import subprocess
import sys
import tarfile
import threading
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from local import startup
from local.bundle import pack
from local.errors import LinkLost, PayloadCrashed, Unreachable
from local.host import Host
from local.links.base import Answer
from local.links.fake import FakeLink
from local.links.here import HereLink
from remote import wire
from remote.channel import answer_frame
from remote.schema import StatusAnswer, StatusRequest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from local.links.ssh import SshLink
    from tests.ssh.servers import Server

PYTHON = sys.executable
BARE = pack(None, {"pkg/mod.py": "x = 1\n"})


@pytest.fixture
def link(sshd_server: Server) -> Iterator[SshLink]:
    made = sshd_server.link()
    yield made
    made.close()


@pytest.fixture
def host(link: SshLink, tmp_path: Path) -> Host:
    return Host(link, name="gpu01", python=PYTHON, workdir=str(tmp_path / "work dir"))


def test_reach_tells_where_we_are(host: Host, sshd_server: Server, tmp_path: Path) -> None:
    reached = host.reach()
    assert reached.python_version == ".".join(map(str, sys.version_info[:3]))
    assert (reached.home, reached.user) == (str(sshd_server.home), sshd_server.user)
    assert reached.workdir == host.workdir == str(tmp_path / "work dir")
    assert not Path(reached.workdir).exists()


def test_a_home_is_expanded_on_the_host(link: SshLink, sshd_server: Server) -> None:
    (sshd_server.home / "py thon").symlink_to(PYTHON)
    host = Host(link, name="gpu01", python="~/py thon", workdir="~/work")
    assert host.workdir == f"{sshd_server.home}/work"
    assert host.python == f"{sshd_server.home}/py thon"
    assert host.push(BARE)
    shutil.rmtree(host.workdir)


def test_a_talkative_login_script_does_no_harm(host: Host, sshd_server: Server) -> None:
    profile = sshd_server.home / ".bashrc"
    profile.write_text("echo Welcome to $HOME; printf '\\036PRUDENT-GATE soon'; echo oh >&2\n")
    try:
        assert host.reach().home == str(sshd_server.home)
        assert host.push(BARE)
    finally:
        profile.unlink()


@pytest.mark.parametrize("code", [0, 1])
def test_a_login_shell_that_ends_early_is_not_taken_for_a_python(host: Host, sshd_server: Server, code: int) -> None:
    if sshd_server.kind != "sshd":
        pytest.skip("the embedded server starts no login shell")
    profile = sshd_server.home / ".bashrc"
    profile.write_text(f"echo not today; exit {code}\n")
    try:
        with pytest.raises(Unreachable, match=rf"login shell .* exit code {code}, it said 'not today'") as caught:
            host.reach()
    finally:
        profile.unlink()
    assert ".bashrc" in caught.value.remedy


@pytest.mark.parametrize(
    ("python", "says"),
    [
        ("/nowhere/bin/python3", "there is no Python at /nowhere/bin/python3"),
        ("no-such-python", "there is no Python at no-such-python"),
        ("~/no/python", "there is no Python at ~/no/python"),
        ("/etc", "cannot be executed"),
        ("/bin/true", "does not behave like a Python"),
        ("/bin/cat", "does not behave like a Python"),
        ("/bin/bash", "does not behave like a Python"),
        ("", "there is no Python|cannot be executed"),
    ],
)
def test_what_is_no_python_is_told(link: SshLink, python: str, says: str) -> None:
    with pytest.raises(Unreachable, match=says) as caught:
        Host(link, name="gpu01", python=python, workdir="/tmp/x").reach()
    assert "Set `python`" in caught.value.remedy
    assert caught.value.exit_code == 4
    assert not caught.value.transient


@pytest.mark.parametrize(("mode", "says"), [(0o600, "cannot be executed"), (0o700, "does not behave like a Python")])
def test_a_file_that_is_no_program_is_told(link: SshLink, tmp_path: Path, mode: int, says: str) -> None:
    file = tmp_path / "python"
    file.write_text("no-such-command\n")
    file.chmod(mode)
    with pytest.raises(Unreachable, match=says):
        Host(link, name="gpu01", python=str(file), workdir="/tmp/x").reach()


OLD = [
    ("2.7", 2, b"Unknown option: -I\nusage: python [option] ...\nTry `python -h' for more information.\n", b""),
    ("3.4", 1, b'  File "<string>", line 3\nSyntaxError: invalid syntax\n', b""),
]


@pytest.mark.parametrize(("version", "code", "stderr", "stdout"), OLD)
def test_a_python_that_cannot_read_us_is_too_old(version: str, code: int, stderr: bytes, stdout: bytes) -> None:
    link = FakeLink([Answer(code, stdout, stderr)])
    with pytest.raises(Unreachable, match=r"too old.*3\.10"):
        Host(link, name="gpu01", python=f"python{version}", workdir="/w").reach()


def test_a_python_that_can_but_is_too_old() -> None:
    found = {
        "schema": 1, "python_version": "3.6.15", "home": "/r", "user": "r", "now": 1.0, "workdir": "/w", "bundles": [],
    }  # fmt: skip
    link = FakeLink([Answer(0, answer_frame(json.dumps(found).encode()), b"")])
    with pytest.raises(Unreachable, match=r"too old.*3\.10 or newer \(3\.6\.15\)"):
        Host(link, name="gpu01", python="python3", workdir="/w").reach()


def test_a_bundle_is_pushed_once(host: Host, link: SshLink) -> None:
    assert host.push(BARE) is True
    assert host.push(BARE) is False
    assert Host(link, name="again", python=PYTHON, workdir=host.workdir).push(BARE) is False


def test_what_a_push_leaves(host: Host) -> None:
    host.push(BARE)
    bundles = Path(host.workdir) / "bundles"
    assert [found.name for found in bundles.iterdir()] == [BARE.id]
    manifest = (bundles / BARE.id / "bundle.json").read_bytes()
    assert hashlib.sha256(manifest).hexdigest() == BARE.id
    for name, digest in json.loads(manifest)["files"].items():
        assert hashlib.sha256((bundles / BARE.id / name).read_bytes()).hexdigest() == digest
    modes = {found.is_dir(): set[int]() for found in bundles.rglob("*")}
    for found in (Path(host.workdir), bundles, *bundles.rglob("*")):
        modes[found.is_dir()].add(found.stat().st_mode & 0o777)
    assert modes == {True: {0o700}, False: {0o600}}


def test_two_pushes_at_once_both_end_well(sshd_server: Server, tmp_path: Path) -> None:
    links = [sshd_server.link() for _ in range(4)]
    hosts = [Host(link, name="gpu01", python=PYTHON, workdir=str(tmp_path / "w")) for link in links]
    for host in hosts:
        host.reach()
    outcomes: list[bool] = []
    threads = [threading.Thread(target=lambda host=host: outcomes.append(host.push(BARE))) for host in hosts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for link in links:
        link.close()
    assert sorted(outcomes) == [False, False, False, True]
    assert [found.name for found in (tmp_path / "w" / "bundles").iterdir()] == [BARE.id]


def test_a_bundle_damaged_on_its_way_is_a_matter_of_the_link(host: Host) -> None:
    damaged = Sent(BARE.id, BARE.data[:-7], BARE.sha256)
    with pytest.raises(LinkLost, match="damaged on its way"):
        host.push(damaged)  # type: ignore[arg-type]
    assert not (Path(host.workdir) / "bundles").exists()


@pytest.mark.parametrize("name", ["/etc/x", "../x", "a/../../x", "a//x", "./x", "bundle.json/../../x"])
def test_members_outside_are_refused(host: Host, name: str) -> None:
    with pytest.raises(Unreachable, match="not a plain file inside it"):
        host.push(archive(tarfile.TarInfo(name)))
    assert list((Path(host.workdir) / "bundles").iterdir()) == []


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.DIRTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE])
def test_members_that_are_no_files_are_refused(host: Host, kind: bytes) -> None:
    member = tarfile.TarInfo("x")
    member.type = kind
    member.linkname = "/etc/passwd"
    with pytest.raises(Unreachable, match="not a plain file inside it"):
        host.push(archive(member))


def test_a_bundle_under_a_false_name_is_refused(host: Host) -> None:
    with pytest.raises(Unreachable, match="its manifest has another name"):
        host.push(replace(BARE, id="0" * 64))
    assert list((Path(host.workdir) / "bundles").iterdir()) == []


def test_a_workdir_that_cannot_be(link: SshLink, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    host = Host(link, name="gpu01", python=PYTHON, workdir=str(tmp_path / "file" / "work"))
    with pytest.raises(Unreachable, match=r"Not a directory.*file") as caught:
        host.push(BARE)
    assert "workdir" in caught.value.remedy


def test_a_workdir_that_nobody_can_make(link: SshLink) -> None:
    host = Host(link, name="gpu01", python=PYTHON, workdir="/proc/nowhere")
    with pytest.raises(Unreachable, match="the bundle cannot be put into /proc/nowhere: No such file or directory"):
        host.push(BARE)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "small"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", folder], capture_output=True, check=False
    )
    if mounted.returncode != 0:
        pytest.skip("only root can mount a small disk")
    yield folder
    subprocess.run(["umount", folder], check=True)


def test_a_full_disk_is_told_and_nothing_half_stays(link: SshLink, small_disk: Path) -> None:
    host = Host(link, name="gpu01", python=PYTHON, workdir=str(small_disk))
    with pytest.raises(Unreachable, match="No space left on device") as caught:
        host.push(BARE)
    assert "Make room" in caught.value.remedy
    assert list((small_disk / "bundles").iterdir()) == []


# ---- calls -----------------------------------------------------------------------------------------------------

REQUEST = StatusRequest(workdir="/w")
EMPTY = wire.dumps(StatusAnswer(runs=())).encode()
REACHED = answer_frame(
    json.dumps(
        {"schema": 1, "python_version": "3.12.1", "home": "/r", "user": "r", "now": 1.0, "workdir": "/w", "bundles": []}
    ).encode()
)


def scripted(*answers: Answer) -> Host:
    return Host(FakeLink([Answer(0, REACHED, b""), *answers]), name="gpu01", python="python3", workdir="~/w")


def call(host: Host) -> StatusAnswer:
    return host.call("status", REQUEST, StatusAnswer, bundle="b" * 64, deadline=5)


def test_a_call_goes_to_the_bundles_entry_isolated() -> None:
    host = scripted(Answer(0, answer_frame(EMPTY), b"noise"))
    assert call(host) == StatusAnswer(runs=())
    assert isinstance(host.link, FakeLink)
    entry = f"/w/bundles/{'b' * 64}/payload/remote/__main__.py"
    assert host.link.ran[-1].words == ("python3", "-I", "-B", entry, "status")


@pytest.mark.parametrize("before", [b"", b"Welcome!\n", b"\x1ePRUDENT-GATE \n", b"\x1ePRUDENT-GATE 12 abc\n"])
def test_noise_before_the_answer_is_passed_over(before: bytes) -> None:
    assert call(scripted(Answer(0, before + answer_frame(EMPTY) + b"after", b""))) == StatusAnswer(runs=())


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (Answer(1, b"", b"Traceback (most recent call last):\n  boom\n"), r"exit code 1\n--- stderr ---\nTraceback"),
        (Answer(1, b"printed", b"said"), r"--- stdout ---\nprinted\n--- stderr ---\nsaid"),
        (
            Answer(2, b"", b"motd\nremote: status.run: expected text\n"),
            r"not understood: remote: status\.run: expected",
        ),
        (Answer(0, b"hello", b""), "no answer in its output"),
        (Answer(0, answer_frame(EMPTY)[:-3], b""), r"stops after \d+ of \d+ bytes"),
        (Answer(0, answer_frame(EMPTY).replace(b"runs", b"Runs"), b""), "does not have the SHA-256"),
        (Answer(0, answer_frame(b"not json"), b""), "status: not JSON"),
        (Answer(0, answer_frame(b'{"schema": 2}'), b""), "speaks version 1, the document is version 2"),
        (Answer(139, b"x" * 5000, b""), "…xxx"),
    ],
)
def test_a_crash_is_reported_whole(answer: Answer, says: str) -> None:
    host = scripted(answer, Answer(0, startup.SENT, b""))  # for what was not understood: whether input gets there whole
    with pytest.raises(PayloadCrashed, match=says):
        call(host)


def test_no_exit_code_means_that_nothing_is_known() -> None:
    with pytest.raises(LinkLost, match=r"without an exit code.*last said: oops"):
        call(scripted(Answer(None, answer_frame(EMPTY), b"oops\n")))


@pytest.mark.parametrize(("code", "name"), [(137, "SIGKILL"), (143, "SIGTERM"), (129, "SIGHUP"), (130, "SIGINT")])
def test_a_verb_that_was_killed_over_there_is_told_so_and_may_be_asked_again(code: int, name: str) -> None:
    with pytest.raises(LinkLost, match=rf"`status` was killed on the host \({name}\)") as caught:
        call(scripted(Answer(code, b"", b"")))
    assert "it is safe" in caught.value.remedy


def test_an_unknown_verb_over_ssh(host: Host) -> None:
    host.push(BARE)
    with pytest.raises(PayloadCrashed, match="unknown verb 'nonsense'"):
        host.call("nonsense", REQUEST, StatusAnswer, bundle=BARE.id, deadline=20)


def test_a_request_that_is_not_understood_over_ssh(host: Host) -> None:
    host.push(BARE)
    with pytest.raises(PayloadCrashed, match=r"`read` was not understood: remote: read\.run: expected text"):
        host.call("read", REQUEST, StatusAnswer, bundle=BARE.id, deadline=20)


def test_a_stream_that_crashes_is_no_end(host: Host) -> None:
    host.push(BARE)
    with (
        host.stream("read", REQUEST, bundle=BARE.id) as stream,
        pytest.raises(PayloadCrashed, match=r"`read` was not understood: remote: read\.run"),
    ):
        stream.read(20)


def test_the_same_works_on_this_machine(tmp_path: Path) -> None:
    host = Host(HereLink(tmp_path), name="here", python=PYTHON, workdir="~/w")
    assert host.push(BARE)
    assert host.reach().bundles == (BARE.id,)


@dataclass(frozen=True)
class Sent:
    id: str
    data: bytes
    sha256: str


def archive(member: tarfile.TarInfo) -> Sent:
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w:gz") as opened:
        opened.addfile(member)
    return Sent("f" * 64, raw.getvalue(), hashlib.sha256(raw.getvalue()).hexdigest())
