"""Run a short program of the host with a limit on time, and tell apart how it ended. Nothing waits for a hung one."""

from __future__ import annotations

import contextlib
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


@dataclass(frozen=True, kw_only=True, slots=True)
class Said:
    """What a program said; `code` is None when there was no answer, and `trouble` says why."""

    code: int | None
    out: str = ""
    err: str = ""
    trouble: str = ""


def run(words: Sequence[str], *, limit: float, env: Mapping[str, str] | None = None, cwd: str | None = None) -> Said:
    """Run a program to its end or to the limit; never raises, never waits for a process that cannot be killed."""
    try:
        process = subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=env,
            cwd=cwd,
            start_new_session=True,
        )
    except FileNotFoundError:
        return Said(code=None, trouble=f"not installed: there is no {words[0]} to run")
    except OSError as error:
        return Said(code=None, trouble=f"failed: {words[0]} cannot be started ({error.strerror})")
    try:
        out, err = process.communicate(timeout=limit)
    except subprocess.TimeoutExpired:
        _abandon(process)
        return Said(code=None, trouble=f"hung: no answer from {words[0]} in {limit:g} s")
    return Said(code=process.returncode, out=out.decode("utf-8", "replace"), err=err.decode("utf-8", "replace"))


def _abandon(process: subprocess.Popen[bytes]) -> None:
    """Kill and give it a moment: a process stuck in the driver (state D) cannot be waited for."""
    process.kill()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(timeout=0.5)
    for stream in (process.stdout, process.stderr):
        if stream is not None:
            stream.close()
    if process.returncode is None:
        process.returncode = -9  # nobody waits for it any more: no warning, no zombie list
