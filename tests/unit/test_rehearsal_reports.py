"""What a rehearsal says of the machine when a worker has died."""

from __future__ import annotations

import os
from types import SimpleNamespace

import pytest

from remote.rehearsal import reports


@pytest.mark.parametrize(("blocks", "told"), [(0, True), (2047, True), (2048, False), (10**6, False)])
def test_shared_memory_that_is_used_up_is_told(monkeypatch: pytest.MonkeyPatch, blocks: int, *, told: bool) -> None:
    monkeypatch.setattr(os, "statvfs", lambda _folder: SimpleNamespace(f_bavail=blocks, f_frsize=4096))
    said = reports.shared_memory_left()
    assert said == (f", and /dev/shm has {blocks * 4} KiB free: a bus error, most likely" if told else "")


def test_a_host_without_it_is_told_nothing() -> None:
    assert reports.shared_memory_left("/nonexistent/shm") == ""
