from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest

from remote.run.events import EventLog, Tail, parse

if TYPE_CHECKING:
    from pathlib import Path


def read(path: Path) -> list[dict[str, Any]]:
    return [event for line in path.read_bytes().split(b"\n") if (event := parse(line)) is not None]


def test_events_are_numbered_and_ours_whatever_the_fields_say(tmp_path: Path) -> None:
    log = EventLog(tmp_path / "e", clock=lambda: 5.0)
    log.add("started", 0, {"pid": 7})
    log.add("progress", 1, {"n": 99, "time": 0, "attempt": 9, "event": "x", "done": 3, "text": "ü\n"})
    assert read(tmp_path / "e") == [
        {"n": 1, "time": 5.0, "attempt": 0, "event": "started", "pid": 7},
        {"n": 2, "time": 5.0, "attempt": 1, "event": "progress", "done": 3, "text": "ü\n"},
    ]


@pytest.mark.parametrize("torn", [b"", b"\n", b'{"n":3,"eve', b"\xff\x00\n", b'{"n":3}\n', b'{"n":"3","event":"x"}\n'])
def test_numbers_go_on_after_a_torn_line(tmp_path: Path, torn: bytes) -> None:
    path = tmp_path / "e"
    EventLog(path, clock=lambda: 1.0).add("a", 0, {})
    EventLog(path, clock=lambda: 1.0).add("b", 0, {})
    with path.open("ab") as file:
        file.write(torn)
    EventLog(path, clock=lambda: 1.0).add("c", 0, {})
    assert [(event["n"], event["event"]) for event in read(path) if event["event"] in "abc"] == [
        (1, "a"), (2, "b"), (3, "c"),
    ]  # fmt: skip


def test_events_wait_for_a_disk_that_refuses(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "e"
    log = EventLog(path, clock=lambda: 1.0)
    log.add("a", 0, {})
    log.add("b", 0, {})
    assert not log.flush()
    path.parent.mkdir()
    assert log.flush()
    assert [event["event"] for event in read(path)] == ["a", "b"]


@pytest.mark.parametrize("line", [b"", b"1", b"[]", b"{}", b'{"event":1}', b"{", b"\xff", b"[" * 100_000])
def test_what_is_no_event_is_none(line: bytes) -> None:
    assert parse(line) is None


def test_a_tail_gives_each_whole_line_once(tmp_path: Path) -> None:
    tail = Tail(tmp_path / "t")
    assert tail.lines() == []
    data = b"".join(json.dumps({"event": "x", "n": n}).encode() + b"\n" for n in range(5))
    found = []
    with (tmp_path / "t").open("ab", buffering=0) as file:
        for at in range(0, len(data), 3):
            file.write(data[at : at + 3])
            found += tail.lines()
    assert b"\n".join(found) + b"\n" == data


def test_a_tail_cuts_at_returns_where_it_is_told_to(tmp_path: Path) -> None:
    (tmp_path / "t").write_bytes(b"old\n 10%\r 20%\rnext\n")
    assert Tail(tmp_path / "t", offset=4, ends=re.compile(rb"[\r\n]")).lines() == [b" 10%", b" 20%", b"next"]
