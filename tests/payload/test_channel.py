from __future__ import annotations

import hashlib
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
FRAME = re.compile(rb"\x1ePRUDENT-GATE (\d+) ([0-9a-f]{64})\n")
NOISY = """
import ctypes, os, sys
from remote.channel import Channel
channel = Channel()
print("python noise" * 1000)
os.write(1, b"descriptor noise")
ctypes.CDLL(None).puts(b"C noise")
ctypes.CDLL(None).fflush(None)
channel.answer(b'{"schema": 1}' * 50_000)
print("late noise")
"""


def run_script(script: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([sys.executable, "-c", script], capture_output=True, cwd=ROOT, check=False, timeout=60)


def test_an_answer_is_alone_on_stdout_whatever_is_printed() -> None:
    done = run_script(NOISY)
    head = FRAME.match(done.stdout)
    assert head is not None
    body = done.stdout[head.end() :]
    assert len(body) == int(head[1])
    assert hashlib.sha256(body).hexdigest().encode() == head[2]
    assert b"descriptor noise" in done.stderr
    assert b"C noise" in done.stderr
    assert b"late noise" in done.stderr


def test_a_child_does_not_inherit_the_channel() -> None:
    done = run_script(
        "import subprocess; from remote.channel import Channel; c = Channel();"
        "print(subprocess.run(['ls', '-l', '/proc/self/fd'], capture_output=True, close_fds=False, text=True).stdout)"
    )
    descriptors = [line.split()[-1] for line in done.stderr.decode().splitlines() if "->" in line]
    pipes = {target for target in descriptors if target.startswith("pipe:")}
    # 0 is the runner's, 1 the pipe to our test's subprocess.run, 2 our own stderr: the real stdout is not among them
    assert len(pipes) <= 2


def test_an_unknown_verb_is_said_in_one_line() -> None:
    done = subprocess.run(
        [sys.executable, "-I", "-B", ROOT / "remote/__main__.py", "dance"], capture_output=True, check=False, timeout=60
    )
    assert (done.returncode, done.stdout) == (2, b"")
    assert done.stderr == b"remote: unknown verb 'dance'\n"


def test_a_request_that_cannot_be_understood_names_the_place() -> None:
    done = subprocess.run(
        [sys.executable, "-I", "-B", ROOT / "remote/__main__.py", "stop"],
        input=b'{"schema": 1, "workdir": 7}',
        capture_output=True,
        check=False,
        timeout=60,
    )
    assert (done.returncode, done.stdout) == (2, b"")
    assert done.stderr == b"remote: stop.workdir: expected text, found a whole number\n"
