"""What reaches a terminal: text of hosts without commands, markup or secrets, whatever prints it."""

from __future__ import annotations

import io
import os
import pty
import re
import threading
from typing import Any

import pytest
from rich.markup import escape
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from local import guard, tables
from local.errors import PrudentError
from local.masks import MaskedLog, mask, too_short
from local.screen import Screen
from local.summary import print_error
from remote.schema import RunStatus, Samples

TERMINALS_OWN = re.compile(
    r"\x1b\[[0-9;]*m|\x1b\[\?25[lh]|\x1b\[[0-9]*[ABCDGKJ]|\r"
)  # colours, cursor, as rich makes them
HOSTILE = [
    "\x1b]0;owned\x07",
    "\x1b]52;c;b3duZWQ=\x07",
    "\x1b]8;;http:owned\x1b\\click\x1b]8;;\x1b\\",
    "\x1b[2J\x1b[H",
    "\x1b[31mred",
    "\x9b31m",
    "\x9d0;owned\x9c",
    "\x1bP1$r owned\x1b\\",
    "\x1b_owned\x1b\\",
    "\x1bc",
    "a\x08\x08b",
    "safe\rowned",
    "\x07",
    "\x7f",
    "\x85",
    "\u202eowned",
    "\u2066owned",
    "\u200bx",
    "\ud800",
    "\x1b",
    "\x1b[",
    "\x1b]",
    "\x00",
    "\x0e",
    "\x1b[6n",
    "\x1b[?1049h",
    "\x1b(0",
]


def written(print_it: Any, **options: Any) -> str:
    """Give what a console with a real terminal behind it is sent."""
    reading, writing = pty.openpty()
    parts: list[bytes] = []

    def collect() -> None:
        while True:
            try:
                part = os.read(reading, 1 << 16)
            except OSError:  # the terminal's other side is closed
                return
            parts.append(part)

    reader = threading.Thread(target=collect)
    reader.start()
    with os.fdopen(writing, "w", encoding="utf-8", errors="backslashreplace") as terminal:
        print_it(terminal, **options)
    reader.join()
    os.close(reading)
    return b"".join(parts).decode()


def commands(text: str) -> list[str]:
    """Give the control characters that are neither line ends nor rich's own."""
    return re.findall(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u200b\u202a-\u202e\u2066-\u2069]", TERMINALS_OWN.sub("", text))


@pytest.mark.parametrize("hostile", HOSTILE, ids=repr)
def test_no_command_gets_through_a_forgotten_place(hostile: str) -> None:
    def show(terminal: Any) -> None:
        console = guard.console(terminal, width=60, force_terminal=True)
        console.print(hostile, markup=False)
        console.print(Text(hostile))
        console.print(f"[bold]{escape(hostile)}[/]")
        table = Table("a", hostile)
        table.add_row(hostile, escape(hostile))
        console.print(table, Panel(escape(hostile), title=hostile))
        console.rule(escape(hostile))

    assert commands(written(show)) == []


@pytest.mark.parametrize("hostile", HOSTILE, ids=repr)
def test_no_command_gets_through_errors_tables_and_prefixed_lines(hostile: str) -> None:
    def show(terminal: Any) -> None:
        screen = Screen(out=terminal, err=terminal)
        for width in (0, 8):
            console, _ = screen.for_host("host", 0, width, ())
            print_error(console, PrudentError(hostile, remedy=hostile, where=hostile), host=hostile)
            run = RunStatus(run=hostile, phase=hostile, output=hostile, cause=hostile, samples=Samples(total=1))
            console.print(tables.runs([("host", run)], {}))

    assert commands(written(show)) == []


@pytest.mark.parametrize(
    "word", ["[bold]x[/]", "[/]", "[link=http:x]y[/link]", ":bomb:", "[red", "\\[x]", "[@click=x]y[/]"]
)
def test_markup_and_emoji_of_others_are_shown_as_they_are(word: str) -> None:
    console = guard.console(io.StringIO(), width=80)
    print_error(console, PrudentError(word))
    assert word in console.file.getvalue()  # type: ignore[attr-defined]


SECRETS = (
    "s3cr3t-tok3n",
    "two-lines-1\ntwo-lines-2",
    "with \"quotes\" and 'more'",
    "(a+)+$[z]",
    "back\\slash-x",
    "ünïcödé-x",
)


@pytest.mark.parametrize("secret", SECRETS)
def test_a_secret_is_masked_wherever_it_is_printed(secret: str) -> None:
    def show(terminal: Any) -> None:
        screen = Screen(out=terminal, err=terminal)
        console, out = screen.for_host("host", 0, 0, [secret])
        console.print(Text(f"said {secret} {secret!r}"), soft_wrap=True)
        print_error(console, PrudentError(f"bad {secret}", remedy=secret))
        out.write(f"{secret}\n")
        screen.console.print(escape(secret), soft_wrap=True)

    text = written(show)
    assert "***" in text
    for line in (secret, *secret.splitlines(), repr(secret)[1:-1]):
        assert line not in text


def test_short_secrets_are_named_and_not_masked() -> None:
    assert too_short({"PIN": "1234", "TOKEN": "123456", "LINES": "a\nb\nc"}) == ("PIN",)
    assert mask("pin 1234 of 123456", ["1234", "123456"]) == "pin 1234 of ***"


@pytest.mark.parametrize("size", [1, 2, 5, 7, 1000, 70_000])
def test_a_secret_is_masked_in_a_log_however_it_is_cut(size: int) -> None:
    secrets = ("s3cr3t-tok3n", "two-lines-1\ntwo-lines-2")
    data = (
        f"a s3cr3t-tok3n b\r50%\rtwo-lines-1\ntwo-lines-2\n{'x' * 140_000}s3cr3t-tok3n{'y' * 70_000}s3cr3t-tok3n"
    ).encode()
    shown: list[bytes] = []
    log = MaskedLog(secrets, shown.append)
    for start in range(0, len(data), size):
        log.feed(data[start : start + size])
        assert len(log._held) <= 2 * MaskedLog.LONGEST + size
    log.finish()
    whole = data.replace(b"s3cr3t-tok3n", b"***").replace(b"two-lines-1", b"***").replace(b"two-lines-2", b"***")
    assert b"".join(shown).replace(b"***\n***", b"***") == whole.replace(b"***\n***", b"***")
