"""What an account's start-up files do to the commands that follow them: some read the input that is not theirs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from local.errors import LinkLost, Unreachable
from local.links.base import Command

if TYPE_CHECKING:
    from local.links.base import Link

SENT = b"a line for the command\nand another\n"
SECONDS = 15.0


def input_lost(link: Link, *, where: str) -> Unreachable | None:
    """Tell whether a command there gets all of its input, by one that gives it back; None when it does."""
    try:
        answer = link.run(Command(("cat",)), stdin=SENT, deadline=SECONDS)
    except LinkLost:  # then the link is what is wrong, and tells so itself
        return None
    if answer.code is None or answer.stdout.endswith(SENT):
        return None
    return Unreachable(
        "something there reads the input of every command before the command does: most likely a `read` in a start-up "
        "file of the account's shell",
        remedy="Look at .bashrc and its like on the host: what asks or reads belongs behind a test for an interactive "
        "shell, as in: case $- in *i*) ;; *) return;; esac",
        where=where,
    )
