"""The leak check itself: it sees what it should."""

from __future__ import annotations

import os
import subprocess
import threading
from typing import TYPE_CHECKING

import pytest

from tests import leaks

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def _hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leaks, "PATIENCE", 0.05)


def test_nothing_is_nothing() -> None:
    assert leaks.left_behind(leaks.things(), None) == set()


def test_a_thread_is_seen() -> None:
    before = leaks.things()
    end = threading.Event()
    thread = threading.Thread(target=end.wait, name="forgotten")
    thread.start()
    assert [thing.label for thing in leaks.left_behind(before, None)] == ["forgotten"]
    end.set()
    thread.join()


def test_a_descriptor_is_seen() -> None:
    before = leaks.things()
    ends = os.pipe()
    assert len(leaks.left_behind(before, None)) == 2
    for end in ends:
        os.close(end)


def test_a_child_is_seen() -> None:
    before = leaks.things()
    with subprocess.Popen(["sleep", "30"]) as child:
        assert child.pid in {thing.number for thing in leaks.left_behind(before, None)}
        child.kill()


def test_a_process_that_left_the_family_is_found_by_the_folder(tmp_path: Path) -> None:
    before = leaks.things()
    with subprocess.Popen(["setsid", "-f", "sleep", "30"], cwd=tmp_path) as starter:
        starter.wait()
    left = leaks.left_behind(before, tmp_path)
    assert left
    for thing in left:
        os.kill(thing.number, 9)
