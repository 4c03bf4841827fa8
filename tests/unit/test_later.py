from __future__ import annotations

import os
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


# One thread makes a package that imports a module of its own, another one wants that module by its name meanwhile: each
# waits for the other then, and Python ends one of them. A slow loader stands in for a busy machine.
CROSSED = """
import importlib.machinery, importlib.util, sys, threading, time
from local import later

making, failed = threading.Event(), []

class Slow(importlib.machinery.SourceFileLoader):
    def create_module(self, spec):
        making.set()
        time.sleep(0.5)

class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == "crossed":
            found = importlib.machinery.PathFinder.find_spec(name, path)
            return importlib.util.spec_from_file_location(name, found.origin, loader=Slow(name, found.origin))

def opened(room):
    try:
        getattr(later.Room(room), "there")
    except BaseException as error:
        failed.append(repr(error))

sys.meta_path.insert(0, Finder())
threads = [threading.Thread(target=opened, args=[room]) for room in ("crossed", "crossed.part")]
threads[0].start()
making.wait()
threads[1].start()
for thread in threads:
    thread.join()
print(failed)
"""


def test_a_package_and_a_module_of_it_may_be_loaded_at_once(tmp_path: Path) -> None:
    (tmp_path / "crossed").mkdir()
    (tmp_path / "crossed" / "__init__.py").write_text("from crossed.part import there\n")
    (tmp_path / "crossed" / "part.py").write_text("there = 1\n")
    done = subprocess.run(
        [sys.executable, "-c", CROSSED],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": f"{ROOT}:{tmp_path}"},
        timeout=60,
    )
    assert done.stdout == "[]\n"


def test_no_room_is_opened_by_a_module_that_is_being_loaded() -> None:
    """Who loads a module holds it, and must not wait for another one that is loaded elsewhere."""
    program = """
import importlib, pkgutil
import local
from local import later

def opened(self, name):
    raise AttributeError(name) if name.startswith("__") else SystemExit(f"{self!r} is opened for {name}")

later.Room.__getattr__ = later.Door.__getattr__ = opened
for module in pkgutil.walk_packages(local.__path__, "local."):
    importlib.import_module(module.name)
"""
    assert "local.gate" in loaded(program)
