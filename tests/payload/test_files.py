from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

import pytest

from remote import files

if TYPE_CHECKING:
    from pathlib import Path


def test_replace_puts_whole_private_content(tmp_path: Path) -> None:
    target = tmp_path / "state.json"
    files.replace(target, b"one")
    files.replace(target, b"two")
    assert target.read_bytes() == b"two"
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    assert os.listdir(tmp_path) == ["state.json"]  # noqa: PTH208 - names are what is compared


def test_a_failing_writer_changes_nothing(tmp_path: Path) -> None:
    target = tmp_path / "state.json"
    files.replace(target, b"one")
    with pytest.raises(RuntimeError), files.replacing(target) as file:
        file.write(b"half")
        raise RuntimeError
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [b"one"]


def test_appending_closes_a_torn_line_first(tmp_path: Path) -> None:
    target = tmp_path / "events.jsonl"
    target.write_bytes(b'{"n":1}\n{"n":')
    files.append_line(target, b'{"n":2}')
    assert target.read_bytes() == b'{"n":1}\n{"n":\n{"n":2}\n'


def test_appending_makes_the_file_private(tmp_path: Path) -> None:
    files.append_line(tmp_path / "new", b"line")
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o600
