"""A run that may be named without a flag: `fab report`, `fab report ID`, `fab report --run ID`.

Invoke knows positional arguments that must be there and options that may be: nothing between. A run's id has a form
that nothing else on a command line has, so whether one is given is seen before Invoke parses its words.
"""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING

from local.errors import UsageError
from local.steps import OnHosts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from invoke.parser.argument import Argument

RUN_ID = re.compile(r"\d{8}-\d{6}-[0-9a-f]{4}", re.ASCII)


def foresee(told: str | None) -> None:
    """Refuse what no run is called; raises UsageError."""
    if told is not None and not RUN_ID.fullmatch(told):
        raise UsageError(
            f"{told!r} is no run: they are called as 20260131-235959-0a1b is",
            remedy="`fab runs` lists what is there.",
            where="--run",
        )


class OnRuns(OnHosts):
    """A step on every host about one run, which may stand right behind the task's name or its options."""

    def get_arguments(self, ignore_unknown_help: bool | None = None) -> list[Argument]:  # noqa: FBT001 - Invoke's
        """Ask for the run by position where the command line has one there."""
        arguments = super().get_arguments(ignore_unknown_help)
        for argument in arguments:
            if argument.name == "run" and is_named(sys.argv[1:], str(self.name)):
                argument.positional = True
        return arguments


def is_named(words: Sequence[str], task: str) -> bool:
    """Say whether a run's id stands behind the task's name without a `--run` before it."""
    if task not in words:
        return False
    behind = list(words[words.index(task) :])
    return any(RUN_ID.fullmatch(word) and behind[place - 1] != "--run" for place, word in enumerate(behind))
