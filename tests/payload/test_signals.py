"""Signals that are waited for: those that came, and none that nobody has sent."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import IO, Self

import pytest

from remote.host import signals
from tests.running import until

REPO = Path(__file__).parents[2]
# Waits so long, and tells what came; what is left on the stack before is no signal's number.
WAITS = """
import os, signal, sys, time
from remote.host import signals
wanted = (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD)
signal.pthread_sigmask(signal.SIG_BLOCK, wanted)
if "fallback" in sys.argv:
    signals._watching = lambda numbers: None
list(signals.wait(wanted, 0.0))
print(os.getpid(), flush=True)
for line in sys.stdin:
    began = time.monotonic()
    found = [(one.si_signo, one.si_pid) for one in signals.wait(wanted, float(line))]
    print(found, time.monotonic() - began < 20, flush=True)
"""


class Waiting:
    """A process that waits for signals when it is told to."""

    def __init__(self, *how: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", WAITS, *how], cwd=REPO, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.line()

    def line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def wait(self, seconds: float) -> None:
        stdin: IO[str] | None = self.process.stdin
        assert stdin is not None
        stdin.write(f"{seconds}\n")
        stdin.flush()

    def state(self) -> str:
        return Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()[0]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.communicate()


@pytest.mark.parametrize("how", [(), ("fallback",)])
def test_a_process_that_was_stopped_while_it_waited_is_told_no_signal_that_nobody_sent(how: tuple[str, ...]) -> None:
    with Waiting(*how) as waiting:
        for _ in range(3):
            waiting.wait(0.3)
            os.kill(waiting.process.pid, signal.SIGSTOP)
            until(lambda: waiting.state() == "T")
            time.sleep(0.5)  # longer than it waits: that is the fault
            os.kill(waiting.process.pid, signal.SIGCONT)
            assert waiting.line() == "[] True"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_wait_and_tells_who_sent_it(number: signal.Signals) -> None:
    with Waiting() as waiting:
        waiting.wait(60.0)
        until(lambda: waiting.state() == "S")
        os.kill(waiting.process.pid, number)
        assert waiting.line() == f"[({int(number)}, {os.getpid()})] True"


def test_signals_that_came_before_are_all_given_at_once() -> None:
    with Waiting() as waiting:
        os.kill(waiting.process.pid, signal.SIGTERM)
        os.kill(waiting.process.pid, signal.SIGINT)
        waiting.wait(60.0)
        assert waiting.line() == f"[(2, {os.getpid()}), (15, {os.getpid()})] True"
        waiting.wait(0.0)
        assert waiting.line() == "[] True"


def test_the_descriptor_is_no_heirloom() -> None:
    descriptor = signals._watching(frozenset({signal.SIGUSR2}))
    assert descriptor is not None
    assert not os.get_inheritable(descriptor)
