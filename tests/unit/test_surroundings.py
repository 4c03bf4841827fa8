"""What the tests stand in is the same on every machine: no terminal's and no CI's word decides what they see."""

from __future__ import annotations

import io
import os

from rich.console import Console


def test_no_terminal_and_no_ci_has_a_say() -> None:
    assert "NO_COLOR" not in os.environ
    assert not Console(file=io.StringIO()).is_terminal
    assert not Console(file=io.StringIO(), force_terminal=True).is_dumb_terminal
