"""Verb `story`: one run as a report tells it, from its folder, the verdicts, the manifest and the log; bounded."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import time
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from remote import files, status, verdict
from remote.paths import Output, Workdir
from remote.results import manifest, verified
from remote.run import events, excerpts, runs, thinning
from remote.schema import Story, StoryAnswer, StoryRequest, Written

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator

    from remote.paths import Run
    from remote.run.runs import Snapshot
    from remote.schema import LaunchRequest, ManifestEntry, Verdict

REFUSED = 20  # failing verdicts before a run
LONGEST = 1 << 20  # a line longer than this is no event


def answer(request: StoryRequest) -> StoryAnswer:
    """Tell of the run that is named, or of the latest."""
    found = runs.folders(request.workdir)
    run = found[0] if found and request.run is None else runs.find(request.workdir, request.run or "")
    return StoryAnswer(story=None if run is None else tell(run, request))


def tell(run: Run, request: StoryRequest) -> Story:
    """Give the story of one run as its files tell it."""
    seen, now = runs.look(run), time.time()
    told = status.describe(seen, now=now)
    points = max(2, min(request.points, 5000))
    happened, left_out = thinning.thinned(_documents(Path(run.events)), points)
    launched = dataclasses.replace(seen.request, secrets={}) if seen.request else None
    return Story(
        run=run.id,
        status=told,
        now=now,
        request=launched,
        exit=seen.exit,
        verdict=_verdict(request.workdir, launched),
        refused=_refused(request.workdir, seen),
        events=tuple(happened),
        left_out=left_out,
        vitals=tuple(_vitals(run, points)),
        excerpts=excerpts.of_run(run, happened, tail=told.phase not in ("done", "stopped")),
        written=_written(launched),
        verified=verified.last(run),
        loads=tuple(_loads(happened)),
        faults=seen.faults,
    )


def _vitals(run: Run, points: int) -> list[dict[str, Any]]:
    kept: thinning.Thinner[dict[str, Any]] = thinning.Thinner(points)
    for line in _documents(Path(run.vitals), events_only=False):
        if isinstance(line.get("time"), int | float):
            kept.add(thinning.bounded(line))
    return kept.result()


def _documents(file: Path, *, events_only: bool = True) -> Iterator[dict[str, Any]]:
    """Give the objects of a file of lines; what a crash has torn is passed over."""
    with contextlib.suppress(OSError), files.opened(file) as lines:
        while line := lines.readline(LONGEST):
            document = events.parse(line) if events_only else _object(line)
            if document is not None:
                yield document


def _object(line: bytes) -> dict[str, Any] | None:
    with contextlib.suppress(ValueError, RecursionError):
        document = json.loads(line)
        return document if isinstance(document, dict) else None
    return None


def _verdict(workdir: str, launched: LaunchRequest | None) -> Verdict | None:
    """Give the verdict that the run was started on."""
    if launched is None or not verdict.FINGERPRINT.fullmatch(launched.fingerprint):
        return None
    return verdict.read(Path(Workdir(PurePosixPath(workdir)).verdicts), launched.fingerprint)


def _refused(workdir: str, seen: Snapshot) -> tuple[Verdict, ...]:
    """Give the failing verdicts on the run's job between the run of that job before it and its own start."""
    if seen.request is None:
        return ()
    name, until = seen.request.job.name, _written_at(seen.run.job)
    earlier = [run for run in runs.folders(workdir) if run.id < seen.run.id]
    since = next((_written_at(run.job) for run in earlier if _job_of(run) == name), 0.0)
    folder = Path(Workdir(PurePosixPath(workdir)).verdicts)
    stems = [path.stem for path in folder.glob("*.json") if verdict.FINGERPRINT.fullmatch(path.stem)]
    aged = sorted((when, stem) for stem in stems if since < (when := _written_at(folder / f"{stem}.json")) <= until)
    found = [one for _, stem in aged if (one := verdict.read(folder, stem)) is not None]
    return tuple([one for one in found if one.verdict == "fail" and one.basis.get("job") == name][-REFUSED:])


def _written_at(path: os.PathLike[str]) -> float:
    """Give when a file was written, by this host's clock: a verdict's own time is that of a laptop."""
    with contextlib.suppress(OSError):
        return Path(path).stat().st_mtime
    return 0.0


def _job_of(run: Run) -> str | None:
    request = runs.look(run).request
    return request.job.name if request else None


def _loads(happened: list[dict[str, Any]]) -> Iterator[float]:
    """Give the seconds of each load that came to its end."""
    since: float | None = None
    for event in happened:
        when = event.get("time")
        if event.get("event") != "phase" or not isinstance(when, int | float):
            continue
        if event.get("phase") == "loading":
            since = when
        elif event.get("phase") == "extracting" and since is not None:
            yield max(0.0, when - since)
            since = None


def _written(launched: LaunchRequest | None) -> Written | None:
    """Add up the manifest of the run's output folder; None where it has none."""
    if launched is None:
        return None
    output = Output(PurePosixPath(launched.job.output))
    try:
        if not Path(output.manifest).is_file():
            return None
        book = manifest.read(output)
    except OSError:
        return None
    return summary(list(book.entries.values()), condemned=len(book.condemned))


def summary(entries: list[ManifestEntry], *, condemned: int) -> Written:
    """Add up lines of a manifest."""
    tokens = [entry.tokens for entry in entries]
    return Written(
        samples=len(entries),
        tokens=sum(tokens),
        size=sum(entry.size for entry in entries),
        shortest=min(tokens, default=0),
        longest=max(tokens, default=0),
        condemned=condemned,
        dtypes=tuple(sorted({entry.dtype for entry in entries})),
        layers=next((entry.layers for entry in entries), ()),
        hidden=tuple(sorted({entry.shape[-1] for entry in entries if entry.shape})),
        models=tuple(sorted({entry.model for entry in entries if entry.model})),
    )
