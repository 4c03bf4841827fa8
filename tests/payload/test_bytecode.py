"""A bytecode cache that a full disk has spoilt: seen and mended before a process of the job reads it."""

from __future__ import annotations

import importlib.util
import os
import py_compile
import resource
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from remote import bytecode
from tests.payload.pretended import job

if TYPE_CHECKING:
    from tests.running import Lab

LIMIT = 4096  # bytes of a file
SOURCE = "NAMES = " + repr([f"name{number}" for number in range(4000)]) + "\n"
SPOILT = {
    "half": lambda data: data[: len(data) // 2],
    "one byte short": lambda data: data[:-1],
    "header only": lambda data: data[: bytecode.HEADER],
    "half a header": lambda data: data[:7],
    "empty": lambda _: b"",
    "zeros behind the header": lambda data: data[: bytecode.HEADER] + bytes(4096),
    "the wrong kind of code": lambda data: data[: bytecode.HEADER] + b"\xff" * 64,
}


def cached(workdir: Path, name: str) -> Path:
    """Compile a module into the workdir's cache, as an import would."""
    source = workdir / "lib" / f"{name}.py"
    source.parent.mkdir(exist_ok=True, parents=True)
    source.write_text(SOURCE)
    folder = Path(f"{bytecode.home(str(workdir))}{source.parent}")
    made = folder / f"{name}.{sys.implementation.cache_tag}.pyc"
    py_compile.compile(str(source), str(made), doraise=True)
    return made


@pytest.mark.parametrize("spoil", SPOILT.values(), ids=SPOILT)
def test_what_cannot_be_loaded_goes_and_what_can_stays(tmp_path: Path, spoil: object) -> None:
    good, bad = cached(tmp_path, "good"), cached(tmp_path, "bad")
    bad.write_bytes(spoil(bad.read_bytes()))  # type: ignore[operator]
    assert bytecode.drop_damaged(str(tmp_path)) == 1
    assert (good.exists(), bad.exists()) == (True, False)
    assert bytecode.drop_damaged(str(tmp_path)) == 0


def test_what_came_since_the_last_look_is_looked_at(tmp_path: Path) -> None:
    cached(tmp_path, "good")
    assert bytecode.drop_damaged(str(tmp_path)) == 0
    bad = cached(tmp_path, "bad")
    bad.write_bytes(bad.read_bytes()[:100])
    assert bytecode.drop_damaged(str(tmp_path)) == 1


def test_folders_in_which_nothing_changed_are_not_read_again(tmp_path: Path) -> None:
    good = cached(tmp_path, "good")
    long_ago = good.parent.stat().st_mtime - 3600
    bytecode.drop_damaged(str(tmp_path))
    good.write_bytes(b"")  # a change that no import makes: in place
    os.utime(good.parent, (long_ago, long_ago))
    assert bytecode.drop_damaged(str(tmp_path)) == 0


def test_what_came_after_the_clock_was_set_back_is_looked_at(tmp_path: Path) -> None:
    bad = cached(tmp_path, "bad")
    assert bytecode.drop_damaged(str(tmp_path)) == 0
    ahead = bad.parent.stat().st_mtime + 3600
    os.utime(Path(bytecode.home(str(tmp_path))).with_name("pycache.looked"), (ahead, ahead))
    bad.unlink()
    cached(tmp_path, "bad").write_bytes(b"half")
    assert bytecode.drop_damaged(str(tmp_path)) == 1


def test_the_bytecode_of_another_python_is_left_to_it(tmp_path: Path) -> None:
    other = cached(tmp_path, "other")
    other.write_bytes(b"\x01\x02\r\n" + other.read_bytes()[4:200])
    assert importlib.util.MAGIC_NUMBER != b"\x01\x02\r\n"
    assert bytecode.drop_damaged(str(tmp_path)) == 0
    assert other.exists()


def test_a_workdir_without_a_cache_is_fine(tmp_path: Path) -> None:
    assert bytecode.drop_damaged(str(tmp_path / "not yet")) == 0


def test_a_real_short_write_is_found(tmp_path: Path) -> None:
    """`ulimit -f` makes the kernel take a part of the file, as a full disk does."""
    source = tmp_path / "lib" / "long.py"
    source.parent.mkdir()
    source.write_text(SOURCE)

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (LIMIT, LIMIT))

    environment = {**os.environ, "PYTHONPYCACHEPREFIX": str(bytecode.home(str(tmp_path)))}
    words = [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(source.parent)!r}); import long"]
    subprocess.run(words, env=environment, preexec_fn=limit, check=True)
    cut = [path for path in Path(bytecode.home(str(tmp_path))).rglob("*.pyc") if path.stat().st_size == LIMIT]
    again = subprocess.run(words, env=environment, check=False, capture_output=True, text=True)
    # A Python that has been mended leaves nothing; the others cannot import the module any more.
    assert ("marshal data too short" in again.stderr) == bool(cut)
    assert bytecode.drop_damaged(str(tmp_path)) == len(cut)
    assert subprocess.run(words, env=environment, check=False).returncode == 0


def test_a_run_is_not_hurt_by_half_a_file_in_the_cache(lab: Lab) -> None:
    work = job(lab, [[1, 2, 3]], batch_size=1)
    answer = lab.launch(work)
    first = lab.ended(lab.run(answer.run or ""))
    assert first.phase == "done"
    spoilt = 0
    for path in Path(bytecode.home(work.workdir)).rglob("*.pyc"):
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
        os.utime(path.parent)  # a rename would have done this
        spoilt += 1
    assert spoilt > 10
    for name in Path(work.output).iterdir():
        if name.suffix == ".pt":
            name.unlink()
    ended = lab.ended(lab.run(lab.launch(work).run or ""))
    assert (ended.phase, ended.cause, ended.attempts) == ("done", None, 1)
