"""What is examined while the host answers: only what the last gate was about, and nothing is decided by it."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest

from local import memory, surface
from local.levels import ahead, static
from local.sharing import Shared
from local.static.tree import Surface
from remote import wire
from remote.schema import GateSpec, Job

if TYPE_CHECKING:
    from pathlib import Path

JOB = Job(name="j", engine="speculators", python="p", workdir="/w", output="/o", gate=GateSpec(modules=("lib.main",)))


def hint(**changes: Any) -> memory.Hint:
    said: dict[str, Any] = dict.fromkeys(memory.WORDS, "x") | {
        "passed": False, "reviewed": False, "architectures": ("A",), "sources": (), "texts": {}, "patched": {},
    }  # fmt: skip
    return memory.Hint(**said | changes)


@pytest.fixture
def examined(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[tuple[Any, ...]]:
    (tmp_path / "lib").mkdir()
    kept = Surface(roots=(tmp_path,), versions=(("lib", "1"),), fingerprint="f" * 64)
    seen: list[tuple[Any, ...]] = []

    def decide(job: Job, sources: Surface, patched: Any, **asked: Any) -> static.Decided:
        del job, sources
        seen.append((dict(patched), asked, threading.current_thread().name))
        return static.Decided(static.Check(id="static", status="pass"), None)  # type: ignore[arg-type]

    monkeypatch.setattr(static, "_SHARED", Shared())
    monkeypatch.setattr(static, "decide", decide)
    monkeypatch.setattr(surface, "remembered", lambda *_: kept)
    return seen


def level(patched: dict[str, str], **asked: Any) -> static.Decided:
    wanted = {"reviewed": False, "architectures": ("A",)} | asked
    return static.decided(JOB, surface.remembered("h", "j"), patched, **wanted)


def test_a_right_guess_leaves_the_level_nothing_to_do(examined: list[tuple[Any, ...]]) -> None:
    with ahead.examining("h", JOB, hint(patched={"lib/main.py": "x = 1"})):
        level({"lib/main.py": "x = 1"})
    assert [(patched, thread) for patched, _, thread in examined if thread == "ahead"] in (
        [({"lib/main.py": "x = 1"}, "ahead")],
        [],  # the level was there first
    )
    assert len(examined) == 1


@pytest.mark.parametrize(
    ("patched", "asked"),
    [
        ({"lib/main.py": "x = 2"}, {}),
        ({}, {}),
        ({"lib/main.py": "x = 1"}, {"reviewed": True}),
        ({"lib/main.py": "x = 1"}, {"architectures": ("B",)}),
    ],
)
def test_a_wrong_guess_decides_nothing(
    examined: list[tuple[Any, ...]], patched: dict[str, str], asked: dict[str, Any]
) -> None:
    with ahead.examining("h", JOB, hint(patched={"lib/main.py": "x = 1"})):
        pass
    level(patched, **asked)
    assert len(examined) == 2
    assert examined[1][0] == patched


@pytest.mark.parametrize("remembered", [None, hint(passed=True)])
def test_after_a_pass_nothing_is_guessed(examined: list[tuple[Any, ...]], remembered: memory.Hint | None) -> None:
    with ahead.examining("h", JOB, remembered):
        pass
    assert examined == []


def test_what_goes_wrong_ahead_is_nobodys_business(
    examined: list[tuple[Any, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def gone(*_: Any) -> Surface:
        raise OSError("no such folder")

    monkeypatch.setattr(surface, "remembered", gone)
    with ahead.examining("h", JOB, hint()):
        pass
    assert examined == []


def test_the_block_ends_with_its_examination_even_when_it_breaks_off(examined: list[tuple[Any, ...]]) -> None:
    with pytest.raises(RuntimeError), ahead.examining("h", JOB, hint()):
        raise RuntimeError(wire.dumps(JOB))
    assert len(examined) == 1
    assert "ahead" not in {thread.name for thread in threading.enumerate()}
