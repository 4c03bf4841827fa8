"""`fab monitor` at a terminal: keys, the log of a host, and a terminal that is as it was, however it is left."""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time
from typing import TYPE_CHECKING

import psutil
import pytest

from tests.ssh import sshd
from tests.ssh.watching import FAB, LIMIT, ROOT, Site, site

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.skipif(sshd.program() is None, reason="wants a real sshd")
COMMANDS = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b[=>()][A-Z0-9]?")
ALT_ON, ALT_OFF, CURSOR_ON = "\x1b[?1049h", "\x1b[?1049l", "\x1b[?25h"


@dataclasses.dataclass
class Terminal:
    """A terminal of 100 × 24 in which `fab monitor` runs."""

    master: int
    slave: int
    process: subprocess.Popen[bytes]
    before: list[object]
    said: str = ""

    def press(self, keys: bytes) -> None:
        os.write(self.master, keys)

    def shows(self, text: str, *, since: int = 0) -> int:
        """Wait until a text is drawn after a place in what was said; gives the place behind all that was said."""
        until = time.monotonic() + LIMIT
        while text not in COMMANDS.sub("", self.said[since:]):
            assert time.monotonic() < until, f"{text!r} was not shown: {COMMANDS.sub('', self.said[since:])[-2000:]}"
            assert self.read(0.2) or self.process.poll() is None, f"ended: {self.said[-2000:]}"
        return len(self.said)

    def read(self, seconds: float) -> bool:
        if not select.select([self.master], [], [], seconds)[0]:
            return False
        self.said += os.read(self.master, 65536).decode("utf-8", "replace")
        return True

    def ended(self) -> int:
        """Wait for the end; gives the exit code."""
        until = time.monotonic() + LIMIT
        while self.process.poll() is None:
            assert time.monotonic() < until
            self.read(0.1)
        while self.read(0.1):
            pass
        return int(self.process.returncode)

    @property
    def restored(self) -> bool:
        """Tell whether the terminal is as it was: modes, screen and cursor."""
        return (
            termios.tcgetattr(self.slave) == self.before
            and self.said.count(ALT_ON) == self.said.count(ALT_OFF) == 1
            and self.said.rindex(CURSOR_ON) > self.said.rindex(ALT_ON)
        )


@contextlib.contextmanager
def terminal(made: Site, *words: str) -> Iterator[Terminal]:
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 100, 0, 0))
    before = termios.tcgetattr(slave)
    process = subprocess.Popen(
        ["setsid", "--ctty", "--wait", FAB, "monitor", "--interval", "1s", *words],
        cwd=ROOT, env=made.environment(), stdin=slave, stdout=slave, stderr=slave,
    )  # fmt: skip
    found = Terminal(master, slave, process, before)
    try:
        yield found
    finally:
        if process.poll() is None:
            process.kill()
        process.wait(LIMIT)
        os.close(master)
        os.close(slave)


@pytest.fixture
def two(tmp_path: Path) -> Iterator[Site]:
    with site(tmp_path, ("gpu01", "gpu02")) as made:
        for name, box in made.boxes.items():
            run = box.lab.start(f"for i in $(seq 1 900); do echo done $i/900; echo word {name} $i; sleep 0.2; done")
            box.lab.extracting(run)
        yield made


def test_keys_open_a_log_and_leave(two: Site) -> None:
    with terminal(two) as screen:
        screen.shows("extracting")
        at = screen.shows("2 hosts: 2 extracting")
        screen.press(b"2")
        at = screen.shows("word gpu02 2", since=at)
        screen.press(b"\x1b[A")
        at = screen.shows("word gpu01", since=at)
        screen.press(b"\x1b")
        at = screen.shows("gpu01  word gpu01", since=at)
        screen.press(b"\x1b[B\r")
        screen.shows("word gpu02", since=at)
        screen.press(b"q")
        assert screen.ended() == 0
        assert screen.restored
        assert "2 hosts: 2 extracting" in screen.said.rpartition(ALT_OFF)[2], "the last table stays to be read"


def test_the_log_that_was_asked_for_is_open(two: Site) -> None:
    with terminal(two, "--log", "gpu02") as screen:
        screen.shows("word gpu02")
        screen.press(b"q")
        assert screen.ended() == 0
        assert screen.restored


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_signals_leave_the_terminal_as_it_was(two: Site, number: signal.Signals, code: int) -> None:
    with terminal(two) as screen:
        screen.shows("extracting")
        os.kill(_fab(screen.process.pid), number)
        assert screen.ended() == code
        assert screen.restored
        assert "Traceback" not in screen.said


def test_ctrl_c_at_the_keyboard(two: Site) -> None:
    with terminal(two) as screen:
        screen.shows("extracting")
        screen.press(b"\x1a")  # Ctrl-Z is not heeded
        screen.press(b"\x03")
        assert screen.ended() == 130
        assert screen.restored


def test_a_terminal_that_goes_away_ends_it(two: Site) -> None:
    with terminal(two) as screen:
        screen.shows("extracting")
        pid = _fab(screen.process.pid)
        os.close(screen.master)
        screen.master = os.open(os.devnull, os.O_RDONLY)
        screen.process.wait(LIMIT)
        assert not psutil.pid_exists(pid)


def test_a_dumb_terminal_gets_tables(two: Site) -> None:
    environment = {**two.environment(), "TERM": "dumb"}
    master, slave = pty.openpty()
    process = subprocess.Popen(
        [FAB, "monitor", "--once"], cwd=ROOT, env=environment, stdin=slave, stdout=slave, stderr=slave
    )
    os.close(slave)
    said = b""
    with contextlib.suppress(OSError):
        while data := os.read(master, 65536):
            said += data
    os.close(master)
    assert process.wait(LIMIT) == 0
    assert ALT_ON.encode() not in said
    assert b"2 hosts: 2 extracting" in said


def _fab(waiter: int) -> int:
    """Give the pid of fab behind setsid, which waits for it where it had to fork."""
    children = psutil.Process(waiter).children()
    return children[0].pid if children else waiter
