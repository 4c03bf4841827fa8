from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from local.later import Door, Room, load

ROOT = Path(__file__).parents[2]
HEAVY = ("local.gate", "local.static.examine", "local.demo.show", "local.follow", "rich.progress", "unidiff")


def loaded(program: str) -> set[str]:
    """Give the modules that a fresh interpreter has loaded after a program."""
    done = subprocess.run(
        [sys.executable, "-c", f"{program}\nimport sys\nprint(*sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
    )
    return set(done.stdout.split())


def test_fab_starts_without_what_only_some_task_needs() -> None:
    assert loaded("import fabfile, local.executor").isdisjoint(HEAVY)


def test_a_remembered_verdict_needs_no_examination() -> None:
    assert loaded("import local.gate, local.render").isdisjoint({"local.static.examine", "local.static.ty"})


def test_a_room_is_its_module_when_it_is_looked_at() -> None:
    room = Room("json.tool")
    assert "json.tool" not in loaded("from local.later import Room; room = Room('json.tool'); repr(room)")
    assert room.main.__module__ == "json.tool"
    with pytest.raises(AttributeError):
        _ = room.nothing_of_the_kind


def test_a_door_opens_when_it_is_called() -> None:
    assert "json.tool" not in loaded("from local.later import Door; main = Door('json.tool').main")
    assert Door("json").loads("[1]") == [1]


@pytest.mark.parametrize("kind", [Room, Door])
def test_whoever_looks_for_protocols_loads_nothing(kind: type[Room]) -> None:
    assert not hasattr(kind("there.is.no.such.module"), "__wrapped__")


def test_what_is_loaded_beside_is_there_afterwards() -> None:
    program = "from local.later import load; load('json.tool', 'email.mime.text').join()"
    assert {"json.tool", "email.mime.text"} <= loaded(program)


def test_a_module_that_does_not_load_is_met_by_who_needs_it() -> None:
    load("there.is.no.such.module").join()
    with pytest.raises(ModuleNotFoundError):
        _ = Room("there.is.no.such.module").anything
