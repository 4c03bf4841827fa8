"""The program of the engine `command`: what could not start is told before the run, with the reason."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from remote.gate import contract, program
from remote.schema import GateSpec, Job

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (["/nowhere/prog"], "the program '/nowhere/prog' cannot be started: it does not exist."),
        (["no-such-program"], "the program 'no-such-program' is in no folder of the job's PATH"),
        (["./job.sh"], "it is no whole path. Name it from its start"),
        (["~/job.sh"], "it is no whole path"),
        (["{tmp}"], "it is no program, or may not be run"),
        (["{tmp}/plain"], "it is no program, or may not be run: chmod +x"),
        (["sh", "/nowhere/job.sh"], "the script '/nowhere/job.sh', which sh is to run, does not exist."),
        ([sys.executable, "extract.py"], "the script 'extract.py', which"),
        (["python3.11", "./plain"], "is in no folder of the job's PATH"),
    ],
)
def test_what_cannot_start_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: list[str], said: str
) -> None:
    (tmp_path / "plain").touch(0o644)
    (tmp_path / "sh").symlink_to("/bin/sh")
    monkeypatch.chdir(tmp_path)  # a run starts elsewhere
    monkeypatch.setenv("PATH", str(tmp_path))
    job = Job(
        name="j", engine="command", python="/p", workdir="/w", output="/o",
        command=tuple(word.format(tmp=tmp_path) for word in command),
    )  # fmt: skip
    checked = contract.check(job, GateSpec(), distributions={}, patched=False)
    (found,) = checked.findings
    assert (checked.status, found.rule) == ("fail", "program-missing")
    assert said in found.message


@pytest.mark.parametrize(
    "command",
    [
        ["true"], ["/bin/sh", "-c", "exit"], ["sh", "{tmp}/plain"], [sys.executable, "-m", "this"],
        [sys.executable, "{tmp}"], ["env", "nothing.sh"], ["sh"],
    ],
)  # fmt: skip
def test_what_starts_is_left_alone(tmp_path: Path, command: list[str]) -> None:
    (tmp_path / "plain").touch(0o644)
    (tmp_path / "__main__.py").touch()
    words = [word.format(tmp=tmp_path) for word in command]
    assert program.findings(words) == ()
    subprocess.run(  # raises where it cannot be started
        words, stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=60, env=dict(os.environ)
    )
