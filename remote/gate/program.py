"""The program of the engine `command`: what could not even start. Looked up as the run's attempt will be started."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from remote.schema import Finding

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

# These take a script as their first word, unless it is an option.
_INTERPRETER = re.compile(r"(python|pypy)[0-9.]*|(ba|da|k|z)?sh|perl|ruby|node|Rscript")
_WHOLE = "Name it from its start (/…): a run starts in a folder of its own."


def findings(command: Sequence[str]) -> tuple[Finding, ...]:
    """Tell what keeps a command from starting, in this process's environment."""
    return tuple(_findings(command))


def _findings(command: Sequence[str]) -> Iterator[Finding]:
    if not command:
        return
    program, path = command[0], os.environ.get("PATH", os.defpath)
    if "/" not in program:
        if shutil.which(program) is None:
            yield _missing(program, f"the program {program!r} is in no folder of the job's PATH ({path}).")
            return
    elif why := _unstartable(program):
        yield _missing(program, f"the program {program!r} cannot be started: {why}.")
        return
    script = command[1] if len(command) > 1 and _INTERPRETER.fullmatch(Path(program).name) else "-"
    if script.startswith("-") or (Path(script).exists() and Path(script).is_absolute()):
        return
    if "/" not in script and shutil.which(script) is not None:  # a shell looks there, too
        return
    why = "does not exist" if Path(script).is_absolute() else f"is no whole path. {_WHOLE.removesuffix('.')}"
    yield _missing(script, f"the script {script!r}, which {program} is to run, {why}.")


def _unstartable(program: str) -> str:
    path = Path(program)
    if not path.is_absolute():
        return f"it is no whole path. {_WHOLE.removesuffix('.')}"
    if not path.exists():
        return "it does not exist"
    return "" if path.is_file() and os.access(path, os.X_OK) else "it is no program, or may not be run: chmod +x"


def _missing(path: str, message: str) -> Finding:
    return Finding(rule="program-missing", file=path, message=message)
