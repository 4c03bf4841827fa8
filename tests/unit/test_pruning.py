from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from local import pruning
from local.pruning import DAY, LEAST, MOST, UNUSED, prune

if TYPE_CHECKING:
    from pathlib import Path

NOW = 1_500_000_000.0


def entries(folder: Path, ages: list[float]) -> list[Path]:
    made = []
    for number, age in enumerate(ages):
        entry = folder / f"{number:064x}"
        entry.mkdir()
        (entry / "x.py").write_text("1")
        os.utime(entry, (NOW - age, NOW - age))
        made.append(entry)
    return made


@pytest.mark.parametrize(
    ("ages", "stay"),
    [
        ([UNUSED * 2] * LEAST, LEAST),
        ([0.0] * LEAST + [UNUSED + 1], LEAST),
        ([0.0] * LEAST + [UNUSED - 1], LEAST + 1),
        ([2 * DAY] * (MOST + 3), MOST),
        ([60.0] * (MOST + 3), MOST + 3),  # all of them may be in use
        ([], 0),
    ],
)
def test_what_is_old_or_too_many_goes_and_what_may_be_in_use_stays(
    tmp_path: Path, ages: list[float], stay: int
) -> None:
    made = entries(tmp_path, ages)
    gone = prune(tmp_path, made, now=NOW)
    assert len(gone) == len(ages) - stay
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(path.name for path in set(made) - set(gone))


def test_what_was_touched_is_in_use(tmp_path: Path) -> None:
    made = entries(tmp_path, [UNUSED * 2] * (LEAST + 2))
    pruning.touch(made[-1])
    gone = prune(tmp_path, made, now=NOW)
    assert len(gone) == 2
    assert made[-1].is_dir()


def test_what_another_process_took_first_is_no_error(tmp_path: Path) -> None:
    made = entries(tmp_path, [0.0] * LEAST + [UNUSED * 2])
    missing = tmp_path / "missing"
    assert prune(tmp_path, [*made, missing], now=NOW) == (made[-1],)


def test_two_processes_prune_one_folder(tmp_path: Path) -> None:
    made = entries(tmp_path, [0.0] * LEAST + [UNUSED * 2] * 40)
    program = (
        "import sys; from pathlib import Path; from local.pruning import prune; folder = Path(sys.argv[1]);"
        f"print(len(prune(folder, [p for p in folder.iterdir() if len(p.name) == 64], now={NOW})))"
    )
    both = [
        subprocess.Popen([sys.executable, "-c", program, str(tmp_path)], stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    gone = [int(one.communicate()[0]) for one in both]
    assert [one.returncode for one in both] == [0, 0]
    assert sum(gone) == 40
    assert {path.name for path in tmp_path.iterdir()} == {path.name for path in made[:LEAST]}


def test_ruins_of_killed_processes_are_swept(tmp_path: Path) -> None:
    for name, age in ((".gone-a", 2 * DAY), (".unpack-b", 2 * DAY), (".unpack-c", 60.0), ("hosts", 90 * DAY)):
        (tmp_path / name).mkdir()
        os.utime(tmp_path / name, (NOW - age, NOW - age))
    prune(tmp_path, [], now=NOW)
    assert sorted(path.name for path in tmp_path.iterdir()) == [".unpack-c", "hosts"]


def test_the_newest_files_stay_and_the_one_just_written_whatever_the_clock_says(tmp_path: Path) -> None:
    for number in range(5):
        (tmp_path / str(number)).touch()
        os.utime(tmp_path / str(number), (2**33 + number, 2**33 + number))
    written = tmp_path / "written"
    written.touch()
    pruning.keep_newest(3, written)
    assert {path.name for path in tmp_path.iterdir()} == {"written", "4", "3"}
