"""Verb `pulse`: how the host and its run stand, in one short answer that waits for nothing that can hang.

Once per interval and watcher. What is read is bounded, however long the run; programs are asked by way of
remote/host/asking.py, so that a second one is never started while the first hangs.
"""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from remote import files, status
from remote.host import readings
from remote.run import logfile, runs
from remote.schema import Point, PulseAnswer

if TYPE_CHECKING:
    from collections.abc import Iterable

    from remote.paths import Run
    from remote.schema import PulseRequest

LIFE = 15  # seconds after which a pulse that is held up after all ends: who asked has given it up
WAIT = 0.6  # seconds that the programs may take; later answers are for the next pulse
FRESH = 2.0  # seconds for which an answer is as good as asking again
TAIL = 64 * 1024  # bytes of a file's end that are read
LINE = 16 * 1024  # bytes of the log's end in which the last line is looked for
QUIET = 1.0  # seconds after which a line without end is shown as it stands
SPAN = 600.0  # seconds of the past that are told
STEP = 10.0  # seconds between two points of it


def answer(request: PulseRequest) -> PulseAnswer:
    """Tell how things stand now."""
    signal.alarm(LIFE)
    began = time.monotonic()
    run = _run(request)
    found = None if run is None else status.describe(runs.look(run), now=time.time())
    output = (found.output if found else None) or request.output
    cards = readings.gpu_question(request.workdir)
    room = readings.disk_question(request.workdir, output) if output else None
    for question in filter(None, (cards, room)):
        question.ask(fresh=FRESH)
    line = "" if run is None else last_line(run)
    past = () if run is None else points(_tail(run.vitals), _tail(run.events), now=time.time())
    for question in filter(None, (cards, room)):
        question.wait(began + WAIT)
    now = time.time()
    return PulseAnswer(
        now=now,
        took=round(time.monotonic() - began, 3),
        run=found,
        gpus=readings.gpus(cards.heard(), now=now),
        disk=readings.disk(output, room.heard(), now=now) if room is not None else None,
        load=round(os.getloadavg()[0], 2),
        cpus=os.cpu_count() or 0,
        line=line,
        points=past,
        events_bytes=0 if run is None else _size(run.events),
    )


def last_line(run: Run) -> str:
    """Give the last whole line of the log; one that its writer leaves without an end for a while counts as whole."""
    try:
        with files.opened(run.log) as file:
            size = file.seek(0, os.SEEK_END)
            first = max(logfile.start(run), size - LINE)
            file.seek(first)
            data = file.read(LINE)
            quiet = abs(time.time() - os.fstat(file.fileno()).st_mtime) > QUIET  # a clock may go back
    except OSError:
        return ""
    text = data.replace(b"\r", b"\n")
    if not quiet and b"\n" in text:
        text = text[: text.rindex(b"\n")]
    lines = [line for line in text.split(b"\n") if line.strip()]
    if not lines:
        return ""
    last = lines[-1]
    if len(lines) == 1 and first > 0 and not text.startswith(b"\n"):
        last = last.partition(b" ")[2]  # its start is not among what was read: a word may have been cut
    return last.decode("utf-8", "replace")


def points(vitals: bytes, events: bytes, *, now: float) -> tuple[Point, ...]:
    """Give how far the run had come when, from the ends of its two files: at most one point per STEP of SPAN."""
    found = sorted([*_noted(_documents(vitals)), *_told(_documents(events))], key=lambda point: point.time)
    kept: dict[tuple[int, int], Point] = {}
    before: Point | None = None
    for point in found:
        if point.time > now:
            continue
        if point.time < now - SPAN:
            before = point
            continue
        kept[point.attempt, int(point.time // STEP)] = point
    return tuple(sorted([*([before] if before else []), *kept.values()], key=lambda point: point.time))


def _noted(documents: Iterable[dict[str, Any]]) -> Iterable[Point]:
    for note in documents:
        if note.get("phase") == "extracting" and (point := _point(note, note.get("samples"), note.get("tokens"))):
            yield point


def _told(documents: Iterable[dict[str, Any]]) -> Iterable[Point]:
    """Give a point per progress, and one where extracting began: from there the first samples are counted."""
    done: Any = 0
    tokens: Any = 0
    for event in documents:
        if event.get("event") in ("plan", "progress"):
            done, tokens = event.get("done", done), event.get("tokens", event.get("tokens_done", tokens))
        if event.get("event") == "progress" or (event.get("event"), event.get("phase")) == ("phase", "extracting"):
            point = _point(event, done, tokens)
            if point is not None:
                yield point


def _point(document: dict[str, Any], samples: Any, tokens: Any) -> Point | None:
    moment, attempt = document.get("time"), document.get("attempt")
    if type(moment) not in (int, float) or any(type(count) is not int for count in (attempt, samples, tokens)):
        return None
    return Point(time=float(moment), attempt=attempt, samples=samples, tokens=tokens)  # type: ignore[arg-type]


def _documents(data: bytes) -> Iterable[dict[str, Any]]:
    """Give the objects of whole lines; what was cut or torn is passed over."""
    for line in data.split(b"\n"):
        try:
            document = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(document, dict):
            yield document


def _run(request: PulseRequest) -> Run | None:
    if request.run is not None:
        return runs.find(request.workdir, request.run)
    found = runs.folders(request.workdir)
    return found[0] if found else None


def _tail(path: os.PathLike[str]) -> bytes:
    try:
        with files.opened(path) as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - TAIL))
            return file.read(TAIL)
    except OSError:
        return b""


def _size(path: os.PathLike[str]) -> int:
    try:
        return Path(path).stat().st_size
    except OSError:
        return 0
