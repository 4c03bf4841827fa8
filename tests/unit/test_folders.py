"""The laptop's folders: moved by their variables, and told when they cannot be made."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from local import folders
from local.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

BOTH = [(folders.cache, "PRUDENT_GATE_CACHE"), (folders.state, "PRUDENT_GATE_STATE")]


@pytest.mark.parametrize(("folder", "variable"), BOTH)
def test_a_folder_is_made_where_its_variable_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: Callable[[], Path], variable: str
) -> None:
    monkeypatch.setenv(variable, str(tmp_path / "deep" / "down"))
    assert folder() == tmp_path / "deep" / "down"
    assert folder().stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize(("folder", "variable"), BOTH)
@pytest.mark.parametrize("below", ["file", "file/below"])
def test_a_folder_that_cannot_be_made_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: Callable[[], Path], variable: str, below: str
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv(variable, str(tmp_path / below))
    with pytest.raises(UsageError, match="cannot be made") as caught:
        folder()
    assert variable in caught.value.remedy


@pytest.mark.parametrize(("folder", "variable"), BOTH)
def test_a_home_that_nobody_knows_is_told(
    monkeypatch: pytest.MonkeyPatch, folder: Callable[[], Path], variable: str
) -> None:
    monkeypatch.setenv(variable, "~nobody.of.this.name/folder")
    with pytest.raises(UsageError, match="cannot be made"):
        folder()


def test_the_home_of_nobody_is_a_path_as_it_is_written() -> None:
    assert folders.at_home("~nobody-of-that-name/x") == Path("~nobody-of-that-name/x")
    assert folders.at_home("~/x") == Path.home() / "x"
