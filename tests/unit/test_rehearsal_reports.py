"""What a rehearsal says of the machine when a worker has died, and of a silence."""

from __future__ import annotations

import os
from types import SimpleNamespace

import pytest

from remote.rehearsal import reports
from remote.schema import Finding, Job


@pytest.mark.parametrize(("blocks", "told"), [(0, True), (2047, True), (2048, False), (10**6, False)])
def test_shared_memory_that_is_used_up_is_told(monkeypatch: pytest.MonkeyPatch, blocks: int, *, told: bool) -> None:
    monkeypatch.setattr(os, "statvfs", lambda _folder: SimpleNamespace(f_bavail=blocks, f_frsize=4096))
    said = reports.shared_memory_left()
    assert said == (f", and /dev/shm has {blocks * 4} KiB free: a bus error, most likely" if told else "")


def test_a_host_without_it_is_told_nothing() -> None:
    assert reports.shared_memory_left("/nonexistent/shm") == ""


HANGS = Finding(rule="rehearsal-timeout", message="no end within 900 s: it hangs")
WORKER = (
    "INFO [parallel_state.py:1234] world_size=1 rank=0 distributed_init_method=tcp://198.51.100.7:59761 backend=gloo"
)


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (f"loading\n{WORKER}\n \n", f"; last said: {WORKER}; see `VLLM_LOOPBACK_IP` in the job's environment"),
        (f"{WORKER}\nall is well", "; last said: all is well"),
        ("x" * 1000, f"; last said: {'x' * reports.LAST}"),
        ("\n  \n", ""),
        ("", ""),
    ],
)
def test_a_silence_is_told_with_what_was_said_before_it(said: str, told: str) -> None:
    job = Job(
        name="j", engine="speculators", python="p", workdir="/w", output="/o", env={"VLLM_LOOPBACK_IP": "198.51.100.7"}
    )
    assert reports.silent(HANGS, said, job).message == HANGS.message + told
