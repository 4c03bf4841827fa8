"""A file of the real torch that has lost its line in the manifest is taken only when it is as it was written."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.stack.conftest import Stack

pytestmark = pytest.mark.stack


def test_no_file_is_adopted_whose_numbers_have_changed(stack: Stack) -> None:
    told = stack.script("adoption.py")
    assert told["whole"] == 1, "an undamaged file must be adopted"
    assert told["wrong"] == 0
    assert told["again"] > 100
    assert sum(told.values()) == 401
