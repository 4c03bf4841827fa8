"""What the newer verbs answer, and what their files hold: pulse, story, census, verify of many, send; notes of runs."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path, PurePosixPath
from typing import Any, cast

import pytest
from hypothesis import strategies as st

from local import answers, plan, plantable, runs, whole
from local.errors import PrudentError, UsageError
from local.fetching import plan as fetching
from local.fetching.place import Place
from local.hooks import notes
from local.monitor import display, documents, rows
from local.story import ask, html, markdown
from local.story.page import page
from remote import pulse, ranges, story, wire
from remote.paths import Run, Workdir
from remote.results import verified
from remote.run import hand, suspects, vitals
from remote.schema import CensusAnswer, ManifestEntry, PulseAnswer, Story, StoryRequest, Verified, VerifyAnswer
from tests.fuzz.budget import fuzzed
from tests.fuzz.strange import anything, cut, damaged, values, words
from tests.fuzz.test_answers import plain, shown
from tests.pages import stories
from tests.unit import pulse_answers
from tests.unit.test_fetch_stream import ENTRIES, GOOD, Sender, frame, part, standing, stream

PULSES = [wire.encode(answer) for answer in (pulse_answers.B200, pulse_answers.HUNG_SMI, pulse_answers.LOST_CARD)]


@fuzzed(700, damaged(*PULSES))
def test_pulses(folder: Path, document: Any) -> None:
    del folder
    try:
        answer = answers.loads(PulseAnswer, json.dumps(document), "pulse")
    except wire.WireError:
        return
    watched = rows.Watched(name="host", usd_per_hour=2.0, secrets=("s3cr3t-value",))
    made = rows.row(watched, rows.News(answer=answer, at=1.0), monotonic=2.0, clock=pulse_answers.NOW)
    console = plain()
    totals = rows.totals([made])
    console.print(display.snapshot([made], totals, 120))
    console.print(display.screen([made], totals, display.View(), width=80, height=24, plain=True))
    json.dumps(documents.document([made], totals, clock=1.0, interval=5.0), allow_nan=False)
    shown(console)


STORY = wire.encode(stories.story())


@fuzzed(400, damaged(STORY, STORY["status"], {**STORY, "events": STORY["events"][:6], "vitals": STORY["vitals"][:3]}))
def test_stories(folder: Path, document: Any) -> None:
    del folder
    try:
        told = ask.safe(answers.loads(Story, json.dumps(document), "story"), ("s3cr3t-value",))
    except wire.WireError:
        return
    made = page(told, host="host", usd_per_hour=1.0, gpus=8, titles={})
    assert "<script" not in html.render([made])
    assert markdown.render([made, made])


CENSUS = [
    wire.encode(
        CensusAnswer(
            total=3, lengths=ranges.pack([5, 6, 7]), dataset="d", model="m", folder="f", standing="0", working="2",
            run="r", tokens_per_second=3.0, load_seconds=60.0, room=10**6,
        )
    ),
]  # fmt: skip


@fuzzed(700, st.tuples(damaged(*CENSUS), damaged(*CENSUS)))
def test_censuses(folder: Path, drawn: Any) -> None:
    del folder
    held = {}
    for name, document in zip(("one", "two"), drawn, strict=True):
        with contextlib.suppress(wire.WireError, ranges.RangeError):
            held[name] = plan.holding(answers.loads(CensusAnswer, json.dumps(document), "census"))
    if not held:
        return
    try:
        made = plan.make(held, {"three": "it is away"})
    except UsageError as error:
        assert error.message
        return
    console = plain()
    console.print(plantable.table(made))
    assert plantable.words(made)
    json.dumps(plantable.document(made, "job"), allow_nan=False)
    shown(console)


VERIFIED = VerifyAnswer(
    total=3, valid=2, missing=0, damaged=1, extra=0, tokens=3, size=4, whole=3, ranges="0-1", damaged_ranges="2",
    dataset="d", model="m",
)  # fmt: skip


@fuzzed(700, st.tuples(damaged(wire.encode(VERIFIED)), damaged(wire.encode(VERIFIED))))
def test_one_answer_of_many(folder: Path, drawn: Any) -> None:
    del folder
    told: dict[str, VerifyAnswer] = {}
    for name, document in zip(("one", "two"), drawn, strict=True):
        with contextlib.suppress(wire.WireError, PrudentError):
            answer = answers.loads(VerifyAnswer, json.dumps(document), "verify")
            runs.sound(answer, "host")
            told[name] = answer
    with contextlib.suppress(UsageError):
        if (seen := whole.judge(told)) is not None:
            console = plain()
            console.print(whole.table(dict(told), dict.fromkeys(told, "/o"), seen))
            shown(console)


@fuzzed(600, st.one_of(cut(b"0-99,105", b"7"), words.map(lambda word: word.encode("utf-8", "surrogatepass"))))
def test_packed_ranges(folder: Path, data: bytes) -> None:
    del folder
    text = data.decode("utf-8", "replace")
    with contextlib.suppress(ranges.RangeError):
        assert len(ranges.parse(text)) == ranges.count(text)
    with contextlib.suppress(ranges.RangeError):
        ranges.unpack(text)


WHOLE = b"".join([part(3, GOOD[3]), part(7, GOOD[7]), frame({"kind": "end"})])


@fuzzed(400, cut(WHOLE))
def test_samples_on_their_way(folder: Path, data: bytes) -> None:
    place = Place(folder / str(len(data)))
    place.make()
    for path in place.samples.iterdir():
        path.unlink()
    with contextlib.suppress(PrudentError):
        stream(place, Sender([[data]]), patience=0.0).go()
    assert all(GOOD[index] == content for index, content in standing(place).items())


LINES = b"".join(wire.dumps(entry).encode() + b"\n" for entry in ENTRIES)


@fuzzed(600, cut(LINES))
def test_fetched_manifests(folder: Path, data: bytes) -> None:
    held = [fetching.holding("one", data), fetching.holding("two", LINES)]
    fetching.mixed(held)
    wanted = fetching.chosen(held, None)
    fetching.nowhere(held, ranges.spans("0-9"))
    for entries in fetching.deal(held, wanted).values():
        fetching.streams(entries, 4)
    place = Place(folder)
    place.make()
    place.manifest.write_bytes(data)
    assert all(isinstance(entry, ManifestEntry) for entry, _ in place.lines().values())
    place.keep_lines({})


NOTES = {
    "hand": {"samples": [1, 2]},
    "suspects": {"samples": [1], "failed": {"2": "x"}},
    "verified": wire.encode(Verified(time=1.0, answer=VERIFIED)),
    "vitals": {"time": 1.0, "attempt": 1, "phase": "extracting", "samples": 1, "tokens": 3},
    "events": {"n": 1, "time": 1.0, "attempt": 1, "event": "attempt-ended", "root_line": "r", "cause": "c"},
    "job": json.loads(wire.dumps(stories.story().request)),
}


@fuzzed(
    600,
    st.one_of(*(st.tuples(st.just(name), damaged(made) | values | anything) for name, made in NOTES.items()), words),
)
def test_notes_of_runs(folder: Path, drawn: Any) -> None:
    name, value = drawn if isinstance(drawn, tuple) else ("vitals", drawn)
    work = Workdir(PurePosixPath(folder))
    run = work.run("20260101-000000-abcd")
    Path(run.root).mkdir(parents=True, exist_ok=True)
    for other, made in NOTES.items():
        _path(run, other).write_text(json.dumps(value if other == name else made))
    Path(run.log).write_text("a\nr\nb\n")
    hand.held(run)
    suspects.read(run)
    verified.last(run)
    answer = story.answer(StoryRequest(workdir=str(folder)))
    assert answer.story is not None
    wire.dumps(answer)
    for point in pulse.points(_path(run, "vitals").read_bytes(), _path(run, "events").read_bytes(), now=2.0):
        wire.dumps(point)
    vitals.thin(_path(run, "vitals"))


def _path(run: Run, name: str) -> Path:
    return Path(cast("PurePosixPath", getattr(run, name)))


@fuzzed(400, st.tuples(words, words))
def test_names_of_notes(folder: Path, drawn: Any) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PRUDENT_GATE_STATE", str(folder / "state"))
        for word in drawn:
            host, run = answers.whole(word), answers.whole(drawn[0])
            notes.first(host, run, "on_done")
    assert {path.name for path in folder.iterdir()} <= {"state"}
