"""A host whose answers are lies: told in one sentence of ours, within bounded memory, and nothing of it obeyed."""

from __future__ import annotations

import hashlib
import io
import json
import shlex
import time
from typing import TYPE_CHECKING, Any

import psutil
import pytest

from local import guard
from local.errors import LinkLost, PayloadCrashed, PrudentError, Unreachable
from local.follow import follow
from local.host import Host, Reached
from local.links.here import HereLink
from local.summary import print_error
from remote import wire
from remote.channel import answer_frame
from remote.schema import StatusAnswer, StatusRequest

if TYPE_CHECKING:
    from pathlib import Path

    from local.links.base import Link
    from tests.ssh.servers import Server

MIB = 1 << 20
REACHED = {
    "schema": 1, "python_version": "3.11.2", "home": "/root", "user": "root", "now": 1.0, "workdir": "/w",
    "bundles": [],
}  # fmt: skip


def framed(text: str) -> bytes:
    return answer_frame(text.encode("utf-8", "surrogatepass"))


def document(**changes: Any) -> bytes:
    return framed(json.dumps({**REACHED, **changes}))


@pytest.fixture(params=["here", "sshd"])
def link(request: pytest.FixtureRequest, tmp_path: Path) -> Link:
    if request.param == "here":
        return HereLink(tmp_path)
    server: Server = request.getfixturevalue("sshd_server")
    return server.link(pin_file=tmp_path / "pins")


def host(link: Link, tmp_path: Path, script: str) -> Host:
    """Give a host whose Python is this script."""
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\n{script}\n", "utf-8")
    python.chmod(0o700)
    return Host(link, name="liar", python=str(python), workdir="/w")


def saying(link: Link, tmp_path: Path, data: bytes, *, code: int = 0) -> Host:
    (tmp_path / "said").write_bytes(data)
    return host(link, tmp_path, f"cat {shlex.quote(str(tmp_path / 'said'))}; exit {code}")


def told(error: PrudentError) -> str:
    """Print the error; gives what was printed, which holds no command of the host's."""
    console = guard.console(io.StringIO(), width=200)
    print_error(console, error)
    text: str = console.file.getvalue()  # type: ignore[attr-defined]
    assert all(character.isprintable() or character == "\n" for character in text)
    assert len(text) < 20_000
    return text


ANSWERS = {
    "deep": framed('{"schema": 1, "home": ' + "[" * 100_000 + "]" * 100_000 + "}"),
    "rather deep": document(home=json.loads("[" * 200 + "]" * 200)),
    "a huge number": framed(json.dumps(REACHED).replace("1.0", "9" * 4000)),
    "more digits than there are": framed(json.dumps(REACHED).replace("1.0", "9" * 10_000)),
    "a wrong type": document(home=3),
    "a missing value": framed('{"schema": 1}'),
    "a newer schema": document(schema=2),
    "no object": framed("[1, 2]"),
    "no JSON": framed("hello"),
    "no UTF-8": answer_frame(b'{"schema": 1, "home": "\xff"}'),
    "a frame of ten gigabytes": b"\x1ePRUDENT-GATE 9999999999 " + b"0" * 64 + b"\nrest",
    "a frame of more": b"\x1ePRUDENT-GATE 99999999999999999999 " + b"0" * 64 + b"\nrest",
    "another hash": b"\x1ePRUDENT-GATE 2 " + hashlib.sha256(b"x").hexdigest().encode() + b"\n{}",
    "escapes": b"\x1b]0;owned\x07\x1b[2J [bold]owned[/] \x9b31m\xe2\x80\xae",
    "a version that is none": document(python_version="\x1b[31mthree"),
}


@pytest.mark.parametrize("name", ANSWERS)
def test_an_answer_that_is_none_is_told_in_a_sentence(link: Link, tmp_path: Path, name: str) -> None:
    liar = saying(link, tmp_path, ANSWERS[name])
    with pytest.raises(Unreachable) as caught:
        liar.reach()
    assert str(tmp_path / "python") in told(caught.value)
    link.close()


def test_strange_values_that_can_be_understood_are_harmless(link: Link, tmp_path: Path) -> None:
    said = document(now=float("nan"), took=float("inf"), user="\ud800", home="/r\udcff", notices=["\x1b[2J"])
    reached = saying(link, tmp_path, said).reach()
    assert (reached.user, reached.home) == ("\N{REPLACEMENT CHARACTER}", "/r\N{REPLACEMENT CHARACTER}")
    link.close()


@pytest.mark.parametrize("script", ["exec yes", "exec yes >&2", "exec tr '\\0' x </dev/zero"])
def test_an_answer_without_end_is_cut_and_takes_bounded_memory(link: Link, tmp_path: Path, script: str) -> None:
    liar = host(link, tmp_path, script)
    before = psutil.Process().memory_info().rss
    with pytest.raises(LinkLost, match=r"wrote more than|no end within"):
        liar.reach(deadline=60.0)
    assert psutil.Process().memory_info().rss - before < 400 * MIB
    link.close()


@pytest.mark.parametrize(
    "script",
    [
        "exec yes",
        "printf '\\036FRAME '; exec yes x | tr -d '\\n'",
        """printf '\\036FRAME {"kind":"data","file":"log","offset":0,"size":99999999999}\\n'; exec yes""",
        """printf '\\036FRAME {"kind":"data","file":"log","offset":0,"size":-1}\\n'""",
        """printf '\\036FRAME {"kind":"data","file":"log","offset":99999999999999999999,"size":1}\\nx'""",
        """printf '\\036FRAME {"kind":"end","exit":[1],"size":0}\\n'""",
        """printf '\\036FRAME {"kind":"end","exit":{"phase":3},"size":0}\\n'""",
    ],
)
def test_a_stream_of_lies_ends_and_takes_bounded_memory(link: Link, tmp_path: Path, script: str) -> None:
    liar = host(link, tmp_path, script)
    liar._reached = wire.decode(Reached, REACHED)
    before, began = psutil.Process().memory_info().rss, time.monotonic()
    with pytest.raises(PrudentError) as caught:
        follow(
            liar, bundle="b", workdir="/w", run="r",
            on_log=lambda _: None, on_event=lambda _: None, patience=0.5, silence=1.0,
        )  # fmt: skip
    told(caught.value)
    assert psutil.Process().memory_info().rss - before < 300 * MIB
    assert time.monotonic() - began < 60
    link.close()


def test_a_verb_that_crashes_with_escapes_is_told_without_them(link: Link, tmp_path: Path) -> None:
    liar = saying(link, tmp_path, b"\x1b]52;c;b3duZWQ=\x07 [red]x[/]\r\nowned", code=1)
    liar._reached = wire.decode(Reached, REACHED)
    with pytest.raises(PayloadCrashed) as caught:
        liar.call("status", StatusRequest(workdir="/w"), StatusAnswer, bundle="b", deadline=20.0)
    text = told(caught.value)
    assert "[red]x[/]" in text
    assert "]52;" not in text
    link.close()
