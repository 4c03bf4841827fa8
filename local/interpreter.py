"""Say what is wrong with a host's Python, from how its start failed. Pure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from local.errors import Unreachable

if TYPE_CHECKING:
    from local.links.base import Answer

OLDEST = "3.10"
NOT_FOUND = 127
ECHO = "prudent-gate-here"
NOT_EXECUTABLE = 126
_TOO_OLD = re.compile(r"Unknown option: -I|SyntaxError|is not defined|has no attribute")
_MISSING = re.compile(r"not found|no such file|unknown command", re.IGNORECASE)
_RESTRICTED = re.compile(r": restricted(?:: cannot specify|\s*$)")  # bash's word, and that of the Korn shells
_SET = "Set `python` to the interpreter of the environment that has vLLM, e.g. /root/venv/bin/python3."


class Unexplained(Unreachable):
    """What was started as a Python failed, and nothing says why."""


def too_old(version: str) -> bool:
    """Tell whether a version of Python is older than the payload needs; what is no version is none that it can use."""
    found = re.match(r"([0-9]{1,4})\.([0-9]{1,4})", version)
    return found is None or (int(found[1]), int(found[2])) < (3, 10)


def old(python: str, found: str, *, where: str) -> Unreachable:
    """Give the error for a Python that is too old for the payload."""
    message = f"{python} is too old: the payload needs Python {OLDEST} or newer ({found})"
    return Unreachable(message, remedy=_SET, where=where)


def why_not(python: str, answer: Answer, *, where: str) -> Unreachable:
    """Give the error for a Python that did not do what the bootstrap says."""
    said = answer.stderr.decode("utf-8", "replace").strip()
    last = said.rpartition("\n")[2][-300:]
    if answer.code != 0 and _RESTRICTED.search(said):
        return Unreachable(
            f"the account's login shell is a restricted one, which runs no program by its path ({last})",
            remedy="Give the account an ordinary shell (chsh -s /bin/bash), or name another `user` in the inventory.",
            where=where,
        )
    if answer.code == NOT_EXECUTABLE or "permission denied" in last.lower():
        return Unreachable(f"{python} cannot be executed there ({last})", remedy=_SET, where=where)
    missing = answer.code == NOT_FOUND or (answer.code != 0 and _MISSING.search(last))
    ran = said.startswith("Traceback") or last.startswith(f"{python}: ")  # it is there, and says something is not
    if missing and not ran:
        return Unreachable(f"there is no Python at {python} ({last})", remedy=_SET, where=where)
    if answer.code != 0 and _TOO_OLD.search(said):
        return old(python, last, where=where)
    stdout = answer.stdout.decode("utf-8", "replace").strip()[-300:]
    return Unexplained(
        f"{python} does not behave like a Python: exit code {answer.code}, stdout {stdout!r}, stderr {said[-300:]!r}",
        remedy=_SET,
        where=where,
    )


def no_shell(answer: Answer, *, where: str) -> Unreachable | None:
    """Give the error for a login shell that did not run `echo` of our word, None when it did."""
    if answer.code == 0 and ECHO.encode() in answer.stdout:
        return None
    said = (answer.stdout + answer.stderr).decode("utf-8", "replace").strip()[-300:]
    return Unreachable(
        f"the login shell there ends before it runs any command: exit code {answer.code}, it said {said!r}",
        remedy="Look at the account's shell (/etc/passwd) and at its start-up files (.bashrc and its like): an `exit` "
        "or `exec` there must be for interactive shells only.",
        where=where,
    )
