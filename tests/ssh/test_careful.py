"""Care with words, secrets and folders, over a real SSH server: what a run leaves, and who could read it."""

from __future__ import annotations

import os
import stat
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from local.follow import follow
from local.links.base import Command
from local.masks import MaskedLog
from remote.host import processes
from tests.running import Lab

if TYPE_CHECKING:
    from collections.abc import Iterator

    from local.links.base import Answer, Link, Stream
    from tests.ssh.servers import Server

SECRETS = {
    "TOKEN": "hf_abcDEF123456",
    "LINES": "first-line-9z\nsecond-line-8y\n",
    "QUOTES": """q'"`$(touch canary)\\ x""",
    "PATTERN": "(.*)[a-z]+^$|{3}",
    "MARKUP": "[bold red]secret[/]",
    "ACCENTS": "clé-ÿ-\N{PILE OF POO}-secret",
}
PIECES = (
    "hf_abcDEF123456",
    "first-line-9z",
    "second-line-8y",
    "$(touch canary)\\ x",
    "(.*)[a-z]+^$|",
    "[bold red]secret",
    "-secret",
)
PRINT = """printf '%s\\n' "$TOKEN" "$LINES" "$QUOTES" "$PATTERN" "$MARKUP" "$ACCENTS"
printf 'tok %.6s' "$TOKEN"; sleep 0.3; printf '%s\\n' "${TOKEN#??????}"
printf '{"event":"sample-failed","index":1,"cause":"%s"}\\n' "$TOKEN" >> "$PRUDENT_GATE_EVENTS"
echo "ValueError: bad token $TOKEN"; exit 1"""


class Umask:
    """A link whose host has another umask."""

    def __init__(self, link: Link, umask: str) -> None:
        self._link = link
        self._umask = umask

    def __getattr__(self, name: str) -> Any:
        return getattr(self._link, name)

    def run(self, command: Command, **options: Any) -> Answer:
        return self._link.run(self._masked(command), **options)

    def stream(self, command: Command, **options: Any) -> Stream:
        return self._link.stream(self._masked(command), **options)

    def _masked(self, command: Command) -> Command:
        return Command(("sh", "-c", 'umask "$0"; exec "$@"', self._umask, *command.words))


@pytest.fixture
def lab(tmp_path: Path, sshd_server: Server) -> Iterator[Lab]:
    made = Lab(tmp_path / "lab", python=sys.executable, link=sshd_server.link(pin_file=tmp_path / "pins"))
    yield made
    left = made.clean_up()
    assert not left, f"left running: {left}"


class CommandLines(threading.Thread):
    """Reads the command lines of all processes over and over."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.seen: set[bytes] = set()
        self._enough = threading.Event()

    def run(self) -> None:
        while not self._enough.is_set():
            for name in os.listdir("/proc"):  # noqa: PTH208 - as fast as can be
                if name.isdigit():
                    try:
                        self.seen.add(Path(f"/proc/{name}/cmdline").read_bytes())
                    except OSError:
                        continue

    def finish(self) -> bytes:
        self._enough.set()
        self.join()
        return b"\n".join(self.seen)


def test_secrets_are_in_the_environment_of_the_job_and_nowhere_else(lab: Lab, tmp_path: Path) -> None:
    watching = CommandLines()
    watching.start()
    answer = lab.launch(lab.job(PRINT, secret_env=tuple(SECRETS)), secrets=SECRETS)
    assert answer.outcome == "started", answer.message
    run = lab.run(answer.run or "")
    shown: list[bytes] = []
    log = MaskedLog(SECRETS.values(), shown.append)
    told: list[dict[str, Any]] = []
    ended = follow(
        lab.host, bundle=lab.bundle, workdir=lab.workdir, run=run.id, on_log=log.feed, on_event=told.append
    )  # fmt: skip
    log.finish()
    lab.ended(run)
    lines = watching.finish()
    assert ended is not None
    assert (ended.phase, ended.root_line) == ("failed", "ValueError: bad token ***")
    assert b"supervise" in lines
    own = {Path(run.log), Path(run.attempt_events(1))}  # what the job itself writes is what it writes
    for piece in PIECES:
        assert piece.encode() not in b"".join(shown)
        assert piece not in str(told)
        assert piece.encode() not in lines
        for path in (path for path in tmp_path.rglob("*") if path.is_file() and path not in own):
            assert piece.encode() not in path.read_bytes(), f"{piece!r} in {path}"
    raw = Path(run.log).read_bytes()
    for value in SECRETS.values():
        assert value.encode() in raw, "the job has them, to the byte"
    assert not list(tmp_path.rglob("canary"))


@pytest.mark.parametrize("umask", ["000", "022", "077"])
def test_nobody_else_can_read_what_we_leave_whatever_the_umask(sshd_server: Server, tmp_path: Path, umask: str) -> None:
    link: Any = Umask(sshd_server.link(pin_file=tmp_path / "pins"), umask)
    lab = Lab(tmp_path / "lab", python=sys.executable, link=link)
    run = lab.start("umask; echo x > $PRUDENT_GATE_RUN/../../../made; exit 0")
    lab.ended(run)
    assert f"{int(umask, 8):04o}" in Path(run.log).read_text(), "the job keeps the umask that its user has there"
    work = Path(lab.workdir)
    assert stat.S_IMODE(work.stat().st_mode) == 0o700
    for path in work.rglob("*"):
        if not path.is_symlink():
            assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0, f"{path}: {path.stat().st_mode:o}"
    assert lab.clean_up() == []


def test_a_folder_that_others_may_write_to_is_told_and_one_of_theirs_refused(lab: Lab, tmp_path: Path) -> None:
    (tmp_path / "lab").chmod(0o777)
    assert any("others can change" in said and str(tmp_path / "lab") in said for said in lab.host.reach().notices)
    (tmp_path / "lab").chmod(0o700)
    assert lab.host.reach().notices == ()


HOSTILE = (
    "-",
    "--help",
    "$(touch canary)",
    "`touch canary`",
    "; touch canary",
    "'",
    '"',
    "'\"'",
    "\\",
    "a\nb",
    "\r",
    "\t",
    " ",
    "%h",
    "~root",
    "*",
    "!!",
    "\N{PILE OF POO}",
    "a" * 4096,
    "\x1b]0;t\x07",
    "{a,b}",
    "$HOME",
    "#",
    "&",
    "|",
    "<",
    ">",
    "\x7f",
    "é\u202e",
)


def test_words_arrive_to_the_byte_and_nothing_is_run(lab: Lab, tmp_path: Path) -> None:
    said = lab.host.link.run(Command(("printf", "%s\\0", "-", *HOSTILE)))
    assert said.stdout.decode().split("\0")[1:-1] == list(HOSTILE)
    for place in (tmp_path, Path.cwd(), Path.home()):
        assert not (place / "canary").exists()


@pytest.mark.parametrize("word", HOSTILE)
def test_a_job_of_hostile_words_gets_them_to_the_byte(lab: Lab, word: str) -> None:
    script = 'printf "%s\\0" "$1" "$NAMED" "$HIDDEN"; exit 0'
    job = lab.job(
        command=("bash", "-c", script, "x", word),
        env={"NAMED": word},
        output=str(lab.root / "out" / word[:200].strip("/")),
    )
    answer = lab.launch(job, secrets={"HIDDEN": word})
    if answer.outcome == "refused":
        assert answer.message
        return
    run = lab.run(answer.run or "")
    assert lab.ended(run).phase == "done"
    assert Path(run.log).read_bytes() == f"{word}\0".encode() * 3
    assert not list(lab.root.rglob("canary"))
    assert processes.of_run(run) == []
