"""One suite for all links: ssh on a real sshd and on the embedded server, here, and fake in front of here."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

import pytest

from local.errors import LinkLost
from local.links.base import Answer, Command
from local.links.fake import FakeLink
from local.links.here import HereLink

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from local.links.base import Link

ECHO = "import sys; sys.stdout.buffer.write('\\0'.join(sys.argv[1:]).encode('utf-8', 'surrogateescape'))"
HOSTILE = [
    "", " ", "a b", "'", '"', "it's \"so\"", "$(touch pwned)", "`id`", "$HOME", "a\nb\n", "\t", "-rf", "--", "; exit 9",
    "& exit 9", "| cat", "> file", "*", "~", "~root", "!!", "#", "\\", "\\n", "{a,b}", "%s", "é", "👩‍🚀",
    "\x1b[31m", "x" * 4096,
]  # fmt: skip


@pytest.fixture(params=["sshd", "embedded", "here", "fake"])
def link(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Link]:
    made: Link
    if request.param in {"sshd", "embedded"}:
        made = request.getfixturevalue(f"{request.param}_server").link()
    else:
        made = HereLink(tmp_path) if request.param == "here" else FakeLink(behind=HereLink(tmp_path))
    yield made
    made.close()


def sh(script: str) -> Command:
    return Command(("sh", "-c", script))


@pytest.mark.parametrize("code", [0, 1, 42, 127, 255])
def test_exit_codes_come_back(link: Link, code: int) -> None:
    assert link.run(sh(f"exit {code}")).code == code


def test_a_command_that_is_not_there(link: Link) -> None:
    assert link.run(Command(("/nowhere/program",))).code == 127


def test_stdout_and_stderr_stay_apart(link: Link) -> None:
    answer = link.run(sh("echo out; echo err >&2; exit 3"))
    assert answer == Answer(3, b"out\n", b"err\n")


def test_binary_goes_both_ways(link: Link) -> None:
    data = bytes(range(256)) * (5 * 2**20 // 256)
    answer = link.run(Command(("cat",)), stdin=data, deadline=60)
    assert answer.code == 0
    assert answer.stdout == data


def test_input_ends(link: Link) -> None:
    assert link.run(sh("cat; echo end")).stdout == b"end\n"


def test_input_that_nobody_reads_is_no_failure(link: Link) -> None:
    assert link.run(sh("exec <&-; echo done"), stdin=b"x" * 2**20).stdout == b"done\n"


@pytest.mark.parametrize("word", HOSTILE, ids=[ascii(word)[:20] for word in HOSTILE])
def test_hostile_words_arrive_as_they_are(link: Link, word: str) -> None:
    answer = link.run(Command((sys.executable, "-I", "-c", ECHO, word, "last")))
    assert answer.stdout.decode() == f"{word}\0last"


def test_a_deadline_is_kept(link: Link) -> None:
    begun = time.monotonic()
    with pytest.raises(LinkLost, match=r"deadline|within 0\.4"):
        link.run(sh("echo started; exec sleep 6"), deadline=0.4)
    assert time.monotonic() - begun < 5


def test_the_link_works_again_after_a_deadline(link: Link) -> None:
    with pytest.raises(LinkLost):
        link.run(sh("exec sleep 6"), deadline=0.3)
    assert link.run(sh("echo again")).stdout == b"again\n"


def test_more_than_the_limit_is_refused(link: Link) -> None:
    with pytest.raises(LinkLost, match="more than 1000 bytes"):
        link.run(sh("head -c 5000 /dev/zero"), limit=1000)


def test_exactly_the_limit_passes(link: Link) -> None:
    assert len(link.run(sh("head -c 1000 /dev/zero"), limit=1000).stdout) == 1000


def test_a_killed_command_has_no_code_that_says_success(link: Link) -> None:
    assert link.run(sh("kill -9 $$")).code != 0


def test_a_stream_is_read_while_the_command_runs(link: Link, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    with link.stream(sh(f"echo first; until [ -e '{gate}' ]; do sleep 0.02; done; echo second")) as stream:
        assert stream.read(10) == b"first\n"
        gate.touch()
        assert stream.read(10) == b"second\n"
        assert stream.read(10) == b""
        assert stream.read(10) == b""


def test_a_stream_gets_its_input(link: Link) -> None:
    with link.stream(Command(("cat",)), stdin=b"\x00\xffinput") as stream:
        assert stream.read(10) == b"\x00\xffinput"
        assert stream.read(10) == b""


def test_a_stream_tells_how_the_command_ended(link: Link) -> None:
    with link.stream(sh("echo out; head -c 20000 /dev/zero >&2; echo sorry >&2; exit 7")) as stream:
        assert stream.read(10) == b"out\n"
        assert stream.read(10) == b""
        ended = stream.ending()
    assert (ended.code, ended.stdout, ended.stderr[-6:], len(ended.stderr)) == (7, b"", b"sorry\n", 8192)


def test_much_on_stderr_does_not_hold_a_stream_up(link: Link) -> None:
    with link.stream(sh("head -c 5000000 /dev/zero >&2; echo out")) as stream:
        assert stream.read(30) == b"out\n"


def test_a_silent_stream_is_lost_after_the_timeout(link: Link) -> None:
    with link.stream(sh("exec sleep 6")) as stream, pytest.raises(LinkLost, match=r"nothing came for 0\.2 s"):
        stream.read(0.2)


def test_closing_a_stream_ends_the_commands_pipe(link: Link, tmp_path: Path) -> None:
    note = tmp_path / "ended"
    script = f"trap '' PIPE HUP; while echo x 2>/dev/null; do sleep 0.02; done; echo over > '{note}'"
    with link.stream(sh(script)) as stream:
        assert stream.read(10).startswith(b"x\n")
    until = time.monotonic() + 10
    while not (note.exists() and note.read_text()):
        assert time.monotonic() < until, "the command goes on writing"
        time.sleep(0.02)
    assert note.read_text() == "over\n"


def test_streams_and_commands_do_not_wait_for_each_other(link: Link) -> None:
    with link.stream(sh("echo first; exec sleep 6")) as stream:
        assert stream.read(10) == b"first\n"
        assert link.run(sh("echo beside")).stdout == b"beside\n"


def test_reconnect_then_run(link: Link) -> None:
    assert link.run(sh("echo 1")).code == 0
    link.reconnect()
    assert link.run(sh("echo 2")).stdout == b"2\n"
