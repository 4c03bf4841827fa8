"""Counts of datasets that are kept: so many, and always the one just made."""

from __future__ import annotations

import os
from array import array
from typing import TYPE_CHECKING

from remote.prompts import counted

if TYPE_CHECKING:
    from pathlib import Path

COUNTED = counted.Counted(array("i", [3, 4]), bytes(16))


def test_the_oldest_counts_make_room_and_the_one_just_made_stays_whatever_the_clock_says(tmp_path: Path) -> None:
    for number in range(counted.KEPT):
        counted._keep(tmp_path / f"{number}.counted", COUNTED)
        os.utime(tmp_path / f"{number}.counted", (2**33 + number, 2**33 + number))
    counted._keep(tmp_path / "new.counted", COUNTED)
    assert counted._read(tmp_path / "new.counted") == COUNTED
    assert {path.stem for path in tmp_path.iterdir()} == {"new", *map(str, range(1, counted.KEPT))}
