"""The series on the sources that are really installed. No engine is started."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from local import patches
from tests.stack.conftest import stack_python

pytestmark = pytest.mark.stack
SERIES = patches.load_series()
NUMBERS = [patch.number for patch in SERIES]


@pytest.fixture(scope="module")
def sources() -> dict[str, str | None]:
    site = next(Path(stack_python()).parent.parent.glob("lib/python3*/site-packages"))
    return {path: (site / path).read_text() for patch in SERIES for path in patch.files}


@pytest.mark.parametrize("left_out", ["none", *NUMBERS])
def test_all_apply_whichever_is_left_out(sources: dict[str, str | None], left_out: str) -> None:
    series = [patch for patch in SERIES if patch.number != left_out]
    applied = patches.apply(series, sources)
    assert applied.states == {patch.number: "applies" for patch in series}
    for path, text in applied.files.items():
        compile(text, path, "exec")


@pytest.mark.parametrize("patch", SERIES, ids=NUMBERS)
def test_each_is_told_to_be_upstream_once_it_is(sources: dict[str, str | None], patch: patches.Patch) -> None:
    applied = patches.apply(SERIES, sources)
    again = patches.apply([patch], {**sources, **applied.files})
    assert again.states == {patch.number: "upstream"}


def test_plain_patch_makes_the_same_of_it(sources: dict[str, str | None], tmp_path: Path) -> None:
    for path, text in sources.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text or "")
    for one in SERIES:
        command = ["patch", "-p1", "-F0", "-s", "--no-backup-if-mismatch", "-i", str(one.path)]
        subprocess.run(command, cwd=tmp_path, check=True, timeout=30)
    assert {path: (tmp_path / path).read_text() for path in sources} == patches.apply(SERIES, sources).files
