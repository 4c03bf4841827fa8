"""Verb `story`: bounded, whatever the files hold; what it says of a real run."""

from __future__ import annotations

import dataclasses
import json
import os
import time
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

import pytest

from remote import expect, story, wire
from remote.paths import Output, Run, Workdir
from remote.results import verified
from remote.run import excerpts, runs, thinning
from remote.schema import (
    Exit,
    ExpectRequest,
    Job,
    LaunchRequest,
    ManifestEntry,
    StoryAnswer,
    StoryRequest,
    Verdict,
    VerifyAnswer,
)

if TYPE_CHECKING:
    from remote.schema import Story
    from tests.running import Lab

GARBLED = [
    b"",
    b"{",
    b"\xff\xfe\n",
    b"[]\n",
    b"null\n",
    b"[" * 100_000,
    b"\0" * 4096,
    b'{"event": 3}\n',
    b'{"time": NaN}\n',
]


@dataclasses.dataclass
class Place:
    root: Path

    def run(self, number: int = 1, *, job: str = "j", fingerprint: str = "ab" * 32) -> Run:
        run = Workdir(PurePosixPath(self.root)).run(f"20260101-0000{number:02d}-abcd")
        Path(run.root).mkdir(parents=True)
        made = Job(name=job, engine="x", python="/p", workdir=str(self.root), output=str(self.root / "out"))
        request = LaunchRequest(job=made, bundle="b", fingerprint=fingerprint, secrets={"TOKEN": "hf_secret"})
        Path(run.job).write_text(wire.dumps(request))
        os.utime(run.job, (runs.begun(run.id), runs.begun(run.id)))
        return run

    def ended(self, run: Run, **changes: Any) -> None:
        Path(run.exit).write_text(
            wire.dumps(Exit(**{"phase": "done", "code": 0, "ended": 9.0, "attempts": 1, **changes}))
        )

    def verdict(
        self, fingerprint: str, stored: float, *, verdict: str = "fail", job: str = "j", skew: float = 0.0
    ) -> None:
        file = Path(Workdir(PurePosixPath(self.root)).verdict(fingerprint))
        file.parent.mkdir(exist_ok=True)
        made = Verdict(
            fingerprint=fingerprint, bundle="b", verdict=verdict, level="static", decided=stored + skew, checks=(),
            basis={"job": job},
        )  # fmt: skip
        file.write_text(wire.dumps(made))
        os.utime(file, (stored, stored))

    def story(self, run: Run | None = None, **changes: Any) -> Story:
        request = StoryRequest(workdir=str(self.root), run=run.id if run else None, **changes)
        told = wire.loads(StoryAnswer, wire.dumps(story.answer(request))).story
        assert told is not None
        return told


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def lines(*events: dict[str, Any]) -> bytes:
    return b"".join(json.dumps(event).encode() + b"\n" for event in events)


def progress(count: int) -> list[dict[str, Any]]:
    return [{"n": n, "time": float(n), "attempt": 1, "event": "progress", "done": n, "tokens": n} for n in range(count)]


@pytest.mark.parametrize("run", [None, "20260101-000001-abcd", "../x", "", "20260101-000001-abcd/../.."])
def test_no_such_run_is_no_story(tmp_path: Path, run: str | None) -> None:
    assert story.answer(StoryRequest(workdir=str(tmp_path), run=run)).story is None


def test_secrets_never_travel_whatever_the_file_holds(place: Place) -> None:
    run = place.run()
    assert b"hf_secret" in Path(run.job).read_bytes()
    told = place.story(run)
    assert told.request is not None
    assert "hf_secret" not in wire.dumps(told)


def test_a_long_run_is_thinned_and_nothing_but_progress_is_lost(place: Place) -> None:
    run = place.run()
    rare = [{"n": n, "time": float(n), "attempt": 1, "event": "hang", "waiting": "x"} for n in range(300)]
    Path(run.events).write_bytes(lines(*progress(20_000), *rare, *progress(3)))
    Path(run.vitals).write_bytes(lines(*({"time": float(n), "gpus": [{"util": 1}] * 8} for n in range(9000))))
    told = place.story(run, points=100)
    kinds = [event["event"] for event in told.events]
    assert kinds.count("hang") == 300
    assert kinds.count("progress") == 100
    assert told.left_out == 0
    assert len(told.vitals) == 100
    assert (told.vitals[0]["time"], told.vitals[-1]["time"]) == (0.0, 8999.0)
    assert (told.events[0]["done"], told.events[-1]["done"]) == (0, 2)
    assert len(wire.dumps(told)) < 300_000


def test_so_many_events_that_some_are_left_out_keep_both_ends(place: Place) -> None:
    run = place.run()
    many = [{"n": n, "time": float(n), "attempt": 1, "event": "sample-failed", "index": n} for n in range(9000)]
    Path(run.events).write_bytes(lines(*many))
    told = place.story(run)
    assert len(told.events) == thinning.OTHERS
    assert told.left_out == 9000 - thinning.OTHERS
    assert (told.events[0]["index"], told.events[-1]["index"]) == (0, 8999)


@pytest.mark.parametrize("junk", GARBLED, ids=range(len(GARBLED)))
@pytest.mark.parametrize("name", ["job", "state", "exit", "events", "vitals", "log", "verified", "log_start"])
def test_garbled_files_are_passed_over_or_told(place: Place, name: str, junk: bytes) -> None:
    run = place.run()
    place.ended(run)
    Path(getattr(run, name)).write_bytes(junk)
    told = place.story(run)
    assert told.run == run.id
    assert json.loads(wire.dumps(told).encode())["schema"] == 1


@pytest.mark.parametrize(
    "value", ["x" * 10**6, "\ud800", {"a": {"b": {"c": {"d": {"e": 1}}}}}, [[0] * 1000] * 1000, 10**400, float("inf")]
)
def test_an_event_of_any_size_is_cut_to_one_that_can_be_sent(place: Place, value: Any) -> None:
    run = place.run()
    Path(run.events).write_bytes(lines({"n": 1, "time": 1.0, "attempt": 1, "event": "hang", "waiting": value}))
    told = place.story(run)
    assert len(wire.dumps(told)) < 20_000


def test_excerpts_show_the_deciding_line_of_each_failure_in_order(place: Place) -> None:
    run = place.run()
    filler = "".join(f"line {n}\n" for n in range(200))
    Path(run.log).write_text(
        f"{filler}boom one\n{filler}bar 10%\rbar 99%\n{filler}boom two\n{filler}" + "x" * 5000 + "\n"
    )
    told = [
        {"event": "attempt-ended", "attempt": 1, "class": "transient", "cause": "c1", "root_line": "boom one"},
        {"event": "attempt-ended", "attempt": 2, "class": "fatal", "cause": "c2", "root_line": "boom two"},
        {"event": "attempt-ended", "attempt": 3, "class": "fatal", "cause": "c3", "root_line": "not in the log"},
    ]
    first, second, tail = excerpts.of_run(run, told, tail=True)
    assert (first.why, second.why, tail.why) == ("attempt 1: c1", "attempt 2: c2", "the end of the log")
    for shown, line in ((first, "boom one"), (second, "boom two")):
        assert shown.marked is not None
        assert shown.lines[shown.marked] == line
        assert len(shown.lines) == excerpts.BEFORE + 1 + excerpts.AFTER
        assert Path(run.log).read_bytes()[shown.offset :].startswith(line.encode())
    assert not any("10%" in line for line in first.lines)
    assert len(tail.lines) <= excerpts.TAIL
    assert max(map(len, tail.lines)) <= excerpts.LONGEST + 1


def test_excerpts_hold_no_half_lines_which_may_be_half_secrets(place: Place) -> None:
    run, reach = place.run(), excerpts.REACH
    half = b"x" * (reach - 100)
    Path(run.log).write_bytes(b"hf_secret" * 20 + half + b"\nroot\n" + half + b"\n" + b"hf_secret" * 20)
    told = [{"event": "attempt-ended", "root_line": "root", "attempt": 1}]
    around, tail = excerpts.of_run(run, told, tail=True)
    assert around.lines == ("root", "x" * excerpts.LONGEST + "…")
    assert around.lines[around.marked or 0] == "root"
    assert tail.lines == ("hf_secret" * 20,)
    Path(run.log_start).write_text('{"start": 40}')
    around, _ = excerpts.of_run(run, told, tail=True)
    assert around.lines == ("root", "x" * excerpts.LONGEST + "…")


@pytest.mark.parametrize("skew", [0.0, 3600.0, -3600.0])
def test_verdicts_between_the_run_before_and_this_one_are_what_was_refused(place: Place, skew: float) -> None:
    """Whatever the clock of the laptop says that has decided."""
    place.run(1)
    place.run(2, job="other")
    run = place.run(30)
    start = runs.begun(run.id)
    place.verdict("ab" * 32, start - 1, verdict="pass")
    place.verdict("01" * 32, start - 5, skew=skew)
    place.verdict("02" * 32, start - 10, skew=skew)
    place.verdict("03" * 32, start - 60, skew=skew)  # before the run before this one
    place.verdict("04" * 32, start + 60, skew=skew)
    place.verdict("05" * 32, start - 5, job="other")
    told = place.story(run)
    assert told.verdict is not None
    assert told.verdict.verdict == "pass"
    assert [one.fingerprint[:2] for one in told.refused] == ["02", "01"]


@pytest.mark.parametrize("fingerprint", ["", "../../etc/passwd", "f", "ab" * 200])
def test_a_strange_fingerprint_is_no_verdict(place: Place, fingerprint: str) -> None:
    assert place.story(place.run(fingerprint=fingerprint)).verdict is None


def test_loads_are_those_that_came_to_their_end(place: Place) -> None:
    run = place.run()
    phases = [("loading", 10.0), ("loading", 100.0), ("extracting", 160.0), ("loading", 300.0)]
    Path(run.events).write_bytes(lines(*({"event": "phase", "phase": name, "time": at} for name, at in phases)))
    assert place.story(run).loads == (60.0,)


def test_the_manifest_is_added_up(place: Place) -> None:
    run = place.run()
    output = Output(PurePosixPath(place.root / "out"))
    Path(output.root).mkdir()
    entries = [
        ManifestEntry(
            index=n, file=f"data_{n}.pt", tokens=10 + n, shape=(4, 10 + n, 64), dtype="bfloat16", size=1000,
            sha256="s", tokens_sha256="t", layers=(1, 2), model="m",
        )
        for n in range(3)
    ]  # fmt: skip
    Path(output.manifest).write_text("".join(wire.dumps(entry) + "\n" for entry in entries) + '{"torn')
    written = place.story(run).written
    assert written is not None
    assert (written.samples, written.tokens, written.size, written.shortest, written.longest) == (3, 33, 3000, 10, 12)
    assert (written.dtypes, written.layers, written.hidden, written.models) == (("bfloat16",), (1, 2), (64,), ("m",))


def test_the_last_check_is_kept_with_the_newest_run_of_its_output(place: Place) -> None:
    old, new, other = place.run(1), place.run(2), place.run(3)
    elsewhere = json.loads(Path(other.job).read_text())
    elsewhere["job"]["output"] = "/elsewhere"
    Path(other.job).write_text(json.dumps(elsewhere))
    answer = VerifyAnswer(total=2, valid=2, missing=0, damaged=0, extra=0, tokens=9, size=10)
    job = Job(name="j", engine="x", python="/p", workdir=str(place.root), output=str(place.root / "out"))
    verified.keep(job, answer)
    found = place.story(new).verified
    assert found is not None
    assert found.answer == answer
    assert abs(found.time - time.time()) < 60
    assert place.story(old).verified is place.story(other).verified is None


def test_a_real_run_that_failed(lab: Lab) -> None:
    run = lab.start(
        "for i in 1 2 3; do echo done $i/3; done; echo 'torch.OutOfMemoryError: CUDA out of memory' >&2; exit 1"
    )
    lab.ended(run)
    answer = lab.host.call(
        "story", StoryRequest(workdir=lab.workdir), StoryAnswer, bundle=lab.bundle, deadline=30.0
    ).story
    assert answer is not None
    assert (answer.status.phase, answer.status.job) == ("failed", "job")
    marked = [shown.lines[shown.marked] for shown in answer.excerpts if shown.marked is not None]
    assert marked == ["torch.OutOfMemoryError: CUDA out of memory"]
    assert answer.excerpts[-1].why == "the end of the log"
    assert answer.written is None


@pytest.mark.parametrize("model", ["", "/nowhere", "/dev/null"])
def test_a_load_that_cannot_be_weighed_is_not_guessed(tmp_path: Path, model: str) -> None:
    job = Job(name="j", engine="x", python="/p", workdir=str(tmp_path), output="/out", model=model)
    assert expect.answer(ExpectRequest(job=job)).load is None
