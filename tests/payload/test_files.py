from __future__ import annotations

import errno
import os
import re
import stat
from pathlib import Path

import pytest

from remote import files

REPO = Path(__file__).parents[2]


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


def test_what_a_full_disk_takes_in_part_is_an_error_and_the_next_line_is_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full disk takes a part, says so by the count, and refuses only what comes after it."""
    target, real, room = tmp_path / "events.jsonl", os.write, [6]

    def takes_no_more(descriptor: int, data: memoryview) -> int:
        if not room[0]:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        room[0] -= (taken := real(descriptor, data[: room[0]]))
        return taken

    with monkeypatch.context() as full:
        full.setattr(os, "write", takes_no_more)
        with pytest.raises(OSError, match="No space left"):
            files.append_line(target, b'{"n":1}')
    assert target.read_bytes() == b'{"n":1'  # nothing comes after the refusal
    files.append_line(target, b'{"n":1}')
    assert target.read_bytes() == b'{"n":1\n{"n":1}\n'


@pytest.mark.parametrize("piece", [1, 3, 1 << 16])
def test_all_is_written_however_little_is_taken_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, piece: int
) -> None:
    real = os.write
    monkeypatch.setattr(os, "write", lambda descriptor, data: real(descriptor, data[:piece]))
    files.append_line(tmp_path / "lines", b"one line")
    files.append_line(tmp_path / "lines", b"", durable=False)
    assert (tmp_path / "lines").read_bytes() == b"one line\n\n"


def test_nobody_else_writes_without_counting() -> None:
    """Who calls os.write (or opens a file without a buffer) must look at how much of it was taken."""
    loops = {"remote/files.py", "remote/channel.py", "local/fetching/arriving.py", "local/links/hostkeys.py"}
    raw = re.compile(r"os\.(p?write|writev|pwritev|sendfile|copy_file_range)\(|open\([^\n]*[wax+][^\n]*buffering=0")
    sources = [path for side in ("remote", "local") for path in (REPO / side).rglob("*.py")]
    assert {str(path.relative_to(REPO)) for path in sources if raw.search(path.read_text())} == loops
