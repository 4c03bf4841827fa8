"""What hosts answer: frames, documents, streams; and all that is printed of them."""

from __future__ import annotations

import contextlib
import dataclasses
import io
import re
import time
from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st
from rich.console import Console

from local import answers, follow, frames, guard, progress, render, report, runs, streaming, summary, tables, verdicts
from local.errors import PrudentError
from local.gate import GateOutcome
from local.host import Host, Reached
from local.levels import host as host_level
from local.links.base import Answer
from local.links.fake import FakeLink, FakeStream
from local.logtext import LogText
from local.screen import MaskedLog
from remote import channel, wire
from remote.schema import (
    Check,
    Exit,
    Finding,
    LaunchAnswer,
    RunStatus,
    Samples,
    StatusAnswer,
    StopAnswer,
    Verdict,
    VerifyAnswer,
)
from tests.fuzz.budget import fuzzed
from tests.fuzz.strange import anything, cut, damaged, values, words
from tests.unit.test_levels import CUDA, facts, job

if TYPE_CHECKING:
    from pathlib import Path

FINDING = Finding(
    rule="r",
    message="m",
    file="/f",
    line=3,
    column=1,
    end_column=4,
    text="a = b()",
    callee="c",
    signature="(x)",
    fix="- a\n+ b",
)
CHECKS = tuple(
    Check(id=level, status="fail", seconds=1.0, facts=told, findings=(FINDING,))
    for level, told in {
        "reach": {"python": "3.11.1", "user": "u", "clock_skew": 3.0},
        "host": {"gpus": ["B200", "B200"], "versions": {"vllm": "1"}, "output_free": 10**12, "device": "cuda"},
        "patch": {"patches": {"0001": "applies"}, "without": ["0002"]},
        "static": {"modules": ["a"], "versions": {"vllm": "1"}, "dismissed": {"x": 1}},
        "import": {"modules": {"a": {"overlay": True}}, "workers": {"a": {"overlay": True}}},
        "signature": {"calls": {"bound": 3}, "names": 4, "parameters": {"f": "(a, b)"}},
        "contract": {"model": {"class": "A", "captured": ["B"], "layer": "C"}, "pair": {"known": "unknown"}},
        "inputs": {
            "output": {"samples": 3, "size": 1, "free": 2},
            "lengths": {"shortest": 1, "longest": 2},
            "time": {"load": 1.0, "extract": 2.0, "usd": 3.0},
        },
        "rehearsal": {
            "layers_kept": [1],
            "architecture": "A",
            "dtype": "f",
            "prompts": 3,
            "calls": 2,
            "errors": {"1": {"worst": 0.1}},
            "thin": {"extract": 1.0, "tokens": 3},
        },
    }.items()
)
VERDICT = Verdict(
    fingerprint="0" * 64, bundle="b", verdict="fail", level="host", decided=1.0, checks=CHECKS, changed=("x",)
)
RUN = RunStatus(
    run="20260101-000000-abcd",
    phase="done",
    attempt=1,
    pid=2,
    started=1.0,
    last_seen=2.0,
    output="/o",
    samples=Samples(total=3, done=2, failed=1),
    log_bytes=3,
    exit=0,
    cause="c",
    job="j",
    bundle="b",
)
EXIT = Exit(
    phase="failed", code=1, ended=1.0, attempts=2, cause="c", root_line="r", kind="fatal", advice="a", left_running=(3,)
)
ENDING = wire.encode(EXIT)
ANSWERS: dict[type[Any], Any] = {
    Verdict: VERDICT,
    StatusAnswer: StatusAnswer(runs=(RUN,)),
    StopAnswer: StopAnswer(outcome="stopped", run="r", left=(1,), message="m"),
    VerifyAnswer: VerifyAnswer(total=1, valid=0, missing=0, damaged=1, extra=0, tokens=3, size=4, findings=(FINDING,)),
    LaunchAnswer: LaunchAnswer(outcome="started", run="r", message="m"),
    Exit: EXIT,
}
EVENTS = [
    {"n": 1, "event": "plan", "time": 1.0, "attempt": 1, "total": 3, "done": 0, "tokens_total": 9},
    {"n": 2, "event": "progress", "time": 2.0, "done": 1, "failed": 1, "tokens": 3},
    {"n": 3, "event": "phase", "phase": "loading"},
    {"n": 4, "event": "retry", "delay": 3, "cause": "c", "attempt": 2},
    {"n": 5, "event": "attempt-ended", "class": "fatal", "cause": "c", "root_line": "r", "advice": "a", "attempt": 1},
    {"n": 6, "event": "hang", "waiting": "w", "action": "restart"},
    {"n": 7, "event": "sample-failed", "index": 1, "cause": "x"},
    {"n": 8, "event": "ended", "phase": "done", "cause": "c"},
    {"n": 9, "event": "batch-halved", "size": 3},
]
REACHED = {
    "schema": 1,
    "python_version": "3.11.2",
    "home": "/root",
    "user": "root",
    "now": 1.0,
    "workdir": "/w",
    "bundles": ["a"],
    "executable": "/p",
    "took": 0.1,
}
HOSTILE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def plain(width: int = 100) -> Console:
    """Give a console without colours: every control character on it comes from what was printed."""
    return Console(file=io.StringIO(), width=width, color_system=None, highlight=False, force_terminal=False)


def shown(console: Console) -> str:
    """Give what was printed; fails where it holds what would move a cursor or turn a line round."""
    text: str = console.file.getvalue()  # type: ignore[attr-defined]
    assert not (bad := HOSTILE.search(text)), f"{bad!r} in {text[max(0, bad.start() - 40) : bad.end() + 40]!r}"
    text.encode()
    return text


def show(answer: Any) -> None:
    """Print an answer as the tasks do."""
    console = plain()
    if isinstance(answer, Verdict):
        for check in answer.checks:
            render.print_check(console, "host", check)
        render.print_verdict(console, "host", answer)
        outcome = GateOutcome(verdict=answer, facts=None, bundle="b", cached=False)
        for _ in report.document({"host": outcome}):
            pass
    elif isinstance(answer, StatusAnswer):
        console.print(tables.runs([("host", run) for run in answer.runs], {"host": 1.0}))
        for status in answer.runs:
            runs.document({"host": status})
    elif isinstance(answer, VerifyAnswer):
        for finding in answer.findings:
            render.print_finding(console, "host", finding)
        summary.size(answer.size)
    summary.print_error(console, PrudentError(repr(answer), remedy=str(answer), where="host"))
    shown(console)


@fuzzed(1800, damaged(*[{"class": cls.__name__, "data": wire.encode(made)} for cls, made in ANSWERS.items()]))
def test_documents(folder: Path, document: Any) -> None:
    del folder
    named = document.get("class") if isinstance(document, dict) else None
    cls = next((cls for cls in ANSWERS if cls.__name__ == named), Verdict)
    text = wire.json.dumps(document.get("data") if isinstance(document, dict) else document)
    try:
        answer = answers.loads(cls, text, "answer")
    except wire.WireError as error:
        assert str(error)
        return
    show(answer)


@fuzzed(800, st.tuples(st.sampled_from(CHECKS), st.lists(values, min_size=3, max_size=3), words))
def test_facts_of_checks(folder: Path, drawn: Any) -> None:
    del folder
    check, told, word = drawn
    names = list(check.facts)
    strange = {name: told[number % 3] for number, name in enumerate(names)}
    finding = dataclasses.replace(
        FINDING, **dict.fromkeys(("rule", "message", "file", "text", "callee", "signature", "fix"), answers.whole(word))
    )
    for made in (strange, {**check.facts, names[0]: told[0]}):
        try:
            sound = answers.sound(made, "facts")
        except wire.WireError:
            continue
        console = plain()
        render.print_check(console, answers.whole(word), dataclasses.replace(check, facts=sound, findings=(finding,)))
        shown(console)


@fuzzed(900, damaged(wire.encode(facts(**CUDA))))
def test_facts_of_hosts(folder: Path, document: Any) -> None:
    del folder
    try:
        told = answers.loads(type(facts()), wire.json.dumps(document), "facts")
    except wire.WireError:
        return
    console = plain()
    for wanted in (job(device="cuda", tensor_parallel=2), job(device="cpu")):
        render.print_check(console, "", host_level.decide(told, wanted))
    verdicts.basis(told, job(), type("Applied", (), {"files": {}})())
    shown(console)


@fuzzed(
    3500,
    cut(
        channel.answer_frame(b'{"schema": 1}'),
        b'\x1eFRAME {"kind":"data","file":"log","offset":0,"size":3}\nabc\x1eFRAME {"kind":"end","size":0}\n',
        b"motd\n\x1ePRUDENT-GATE 3 00\n",
    ),
)
def test_frames(folder: Path, data: bytes) -> None:
    del folder
    with contextlib.suppress(frames.NoAnswer):
        frames.answer_in(data)
    whole, parts = streaming.Frames(), streaming.Frames()
    found: list[Any] = []
    for reader, feed in ((whole, [data]), (parts, [data[i : i + 3] for i in range(0, len(data), 3)])):
        taken: list[Any] = []
        with contextlib.suppress(streaming.BadStream):
            for part in feed:
                taken += reader.feed(part)
        assert len(reader._held) <= len(data)
        assert reader is whole or taken == found[: len(taken)]
        found = taken if reader is whole else found


def _framed(header: Any, body: bytes) -> bytes:
    header = {**header, "size": len(body)} if isinstance(header, dict) else header
    return b"\x1eFRAME " + wire.json.dumps(header).encode() + b"\n" + body


@fuzzed(
    600,
    st.tuples(
        damaged(
            {"kind": "data", "file": "log", "offset": 0},
            {"kind": "data", "file": "events", "offset": 0},
            {"kind": "gap", "file": "log", "to": 3},
        ),
        cut(*(wire.json.dumps(event).encode() + b"\n" for event in EVENTS)),
        damaged(
            {"kind": "end", "exit": ENDING, "lost": None, "error": None}, {"kind": "end", "exit": None, "lost": "x"}
        ),
    ),
)
def test_streams(folder: Path, drawn: Any) -> None:
    del folder
    header, body, end = drawn
    link = FakeLink()
    link.streams.append(FakeStream([_framed(header, body) + _framed(end, b"")]))
    host = Host(link, name="host", python="python3", workdir="/w")
    host._reached = wire.decode(Reached, REACHED)
    console = plain()
    with progress.Progress(console, "host") as bar, contextlib.suppress(PrudentError):
        follow.follow(
            host,
            bundle="b",
            workdir="/w",
            run="r",
            on_log=bar.on_log,
            on_event=bar.on_event,
            on_link=bar.on_link,
            patience=0.0,
        )  # type: ignore[arg-type]
    shown(console)


@fuzzed(700, st.lists(damaged(*EVENTS), min_size=1, max_size=3))
def test_events(folder: Path, told: list[Any]) -> None:
    del folder
    console = plain()
    with progress.Progress(console, "host") as bar:
        for event in told:
            with contextlib.suppress(wire.WireError):
                if isinstance(sound := answers.sound(event, "event"), dict):
                    bar.on_event(sound)
    shown(console)


@fuzzed(
    700,
    st.lists(
        cut(
            b"plain line\n",
            "grüße \N{PILE OF POO}\r\n".encode(),
            b"10%\r20%\r100%\n",
            b"\x1b[31mred\x1b[0m\n",
            b"x" * 300,
        ),
        max_size=5,
    ),
)
def test_logs(folder: Path, parts: list[bytes]) -> None:
    del folder
    text, console = LogText(), guard.console(io.StringIO(), ["s3cr3t-value", "x" * 6], width=100, color_system=None)
    with progress.Progress(console, "host") as bar:
        log = MaskedLog(["s3cr3t-value", "x" * 6], bar.on_log)
        for part in parts:
            log.feed(part)
            assert all("\n" not in line for line in text.feed(part))
        log.finish()
    assert "xxxxxx" not in shown(console)


@fuzzed(500, st.one_of(words, anything.map(repr)))
def test_errors(folder: Path, word: str) -> None:
    del folder
    console = plain()
    summary.print_error(console, PrudentError(word, remedy=word, where=word), host=word)
    summary.print_way_back(console, word, word)
    shown(console)


@fuzzed(800, st.tuples(damaged(REACHED), st.integers(0, 3)))
def test_bootstraps(folder: Path, drawn: Any) -> None:
    del folder
    document, code = drawn
    body = channel.answer_frame(wire.json.dumps(document).encode())
    answer = Answer(code if code < 3 else None, body, body)
    link = FakeLink([answer] * 4)
    host = Host(link, name="host", python="python3", workdir="~/w")
    console, before = plain(), time.time()
    try:
        host.reach()
        assert host.workdir
        host.call("launch", Samples(), LaunchAnswer, bundle="b", deadline=1.0)
    except PrudentError as error:
        summary.print_error(console, error)
    assert time.time() >= before - 1
    shown(console)
