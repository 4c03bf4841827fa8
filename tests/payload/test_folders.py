"""The folders that libraries write to without being told, as the host finds them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from remote import schema
from remote.host import folders

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Stage


@pytest.mark.parametrize("name", folders.NAMED)
def test_the_folder_that_is_named_is_the_one(tmp_path: Path, name: str) -> None:
    found = folders.found({name: str(tmp_path), "HOME": str(tmp_path)})
    assert found["temporary"].path == found["home"].path == str(tmp_path)
    assert folders.usable(found["temporary"])
    assert "instead" not in found


@pytest.mark.parametrize("kind", ["not there", "a file", "takes none"])
def test_what_is_taken_in_place_of_one_that_cannot_be_used(tmp_path: Path, kind: str) -> None:
    (tmp_path / "a file").write_text("")
    named = "/proc" if kind == "takes none" else str(tmp_path / kind)
    found = folders.found({"TMPDIR": named})
    assert not folders.usable(found["temporary"])
    assert found["instead"].path in folders.USUAL


def test_nothing_stands_in_where_no_folder_takes_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folders, "USUAL", ("/proc", "/proc/self"))
    found = folders.found({})
    assert (found["temporary"].path, found["temporary"].writable) == ("/proc", False)
    assert "instead" not in found


def test_a_session_without_a_home_has_that_of_its_user() -> None:
    assert folders.found({})["home"].path.startswith("/")


def test_the_job_has_the_first_word_and_the_session_the_second(stage: Stage, tmp_path: Path) -> None:
    for env in ({"TMPDIR": str(tmp_path), "HOME": "/proc"}, {}):
        request = schema.FactsRequest(job=stage.job(env=env))
        disks = stage.call(stage.push(None), "facts", request, schema.HostFacts).disks
        assert (disks["temporary"].path == str(tmp_path)) == bool(env)
        assert disks["home"].writable != bool(env)
