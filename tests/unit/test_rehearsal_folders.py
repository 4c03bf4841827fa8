"""The tiny model's folder, put in its place while other gates may be at the same."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

import pytest

from remote.rehearsal import tiny

if TYPE_CHECKING:
    from pathlib import Path


def fill(folder: Path, text: str = "{}") -> None:
    (folder / "config.json").write_text(text)


def test_the_folder_of_a_gate_that_was_first_stays_as_its_engine_reads_it(tmp_path: Path) -> None:
    place = tmp_path / "cache" / "model"

    def while_another_is_first(folder: Path) -> None:
        place.mkdir()
        fill(place, "first")
        fill(folder, "second")

    tiny._made(place, [], while_another_is_first)
    assert (place / "config.json").read_text() == "first"
    assert [path.name for path in place.parent.iterdir()] == ["model"]


def test_a_ruin_makes_room(tmp_path: Path) -> None:
    place = tmp_path / "cache" / "model"
    place.mkdir(parents=True)
    (place / "model.safetensors").write_text("half")
    tiny._made(place, [], fill)
    assert [path.name for path in place.iterdir()] == ["config.json"]


def test_what_cannot_be_made_leaves_nothing(tmp_path: Path) -> None:
    def fails(_folder: Path) -> None:
        raise OSError("no room")

    with pytest.raises(OSError, match="no room"):
        tiny._made(tmp_path / "cache" / "model", [], fails)
    assert list((tmp_path / "cache").iterdir()) == []


def test_what_killed_gates_have_begun_to_make_goes_and_what_is_being_made_stays(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    for name, age in ((".making-old", 2 * tiny.STALE), (".making-new", tiny.STALE / 2), ("model-of-last-year", 1e7)):
        (cache / name).mkdir(parents=True)
        os.utime(cache / name, (time.time() - age,) * 2)
    tiny._made(cache / "model", [], fill)
    assert {path.name for path in cache.iterdir()} == {".making-new", "model-of-last-year", "model"}
