"""`fetch`: the manifest on every host's pipeline, then the samples of all hosts into one folder."""

from __future__ import annotations

import sys
from json import dumps
from pathlib import Path
from typing import TYPE_CHECKING, Any

from local import runs
from local.errors import JobFailed, LinkLost, PrudentError, worst
from local.fetching import plan, telling
from local.fetching.options import understood
from local.fetching.place import Place
from local.fetching.stream import Source, read_manifest
from local.fetching.together import Collected, Result, bring
from local.folders import at_home
from local.screen import Screen
from local.summary import print_error
from local.tasks import named

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from local.session import Session
    from local.targets import Target

TRIES = 3  # for a manifest


def foresee(_targets: Sequence[Target], *, run: str | None = None, **options: Any) -> None:
    """Refuse options that cannot work."""
    named.foresee(run)
    understood(**options)


def collect(session: Session, *, run: str | None = None, to: str | None = None) -> Collected:
    """Bring a host's manifest, whole; that it has none yet is for all hosts together to judge."""
    source = Source(session.host, session.payload, _output(session, run))
    manifest = _manifest(source)
    if isinstance(manifest, str):
        return Collected(source, plan.Holding(session.name, {}), None, manifest)
    holding = plan.holding(session.name, manifest)
    if holding.odd:
        said = f"{holding.odd} lines of its manifest say nothing that can be gone by: they are left out"
        session.console.print(f"[yellow]note[/] {said}", soft_wrap=True)
    return Collected(source, holding, _place(to, [session]).keep_manifest(session.name, manifest))


def finish(sessions: Sequence[Session], *, to: str | None = None, run: str | None = None, **given: Any) -> None:
    """Fetch the samples, tell what came, and raise what the exit code is to say."""
    del run
    console, place, options = Screen().console, _place(to, sessions), understood(**given)
    collected = {session.name: session.values["fetch"] for session in sessions if "fetch" in session.values}
    result = Result()
    try:
        bring(console, place, options, collected, result)
    except PrudentError as error:
        result.troubles.append(error)
    except KeyboardInterrupt:
        console.print("interrupted: what has come is kept, and the same command goes on where it stood")
        raise
    if options.json:
        sys.stdout.write(dumps(_document(place, sessions, collected, result), indent=2) + "\n")
    _raise(result.troubles)


def _place(to: str | None, sessions: Iterable[Session]) -> Place:
    names = {session.target.job.name for session in sessions} - {""}
    return Place(at_home(to) if to else Path("fetched") / (names.pop() if len(names) == 1 else "outputs"))


def _output(session: Session, run: str | None) -> str:
    """Give the output folder: of the run that is named, of the job, or of the latest run."""
    if run is None and session.target.job.engine:
        return session.job.output
    found = runs.latest(session.host, bundle=session.payload, run=run)
    if not found.output:
        raise JobFailed(f"the run {found.run} does not say where its outputs are", remedy="Name its job with --job.")
    return found.output


def _manifest(source: Source) -> bytes | str:
    """Read the manifest; a cut is no reason to go without."""
    for _ in range(TRIES - 1):
        try:
            return read_manifest(source)
        except LinkLost:
            continue
    return read_manifest(source)


def _document(
    place: Place, sessions: Sequence[Session], collected: dict[str, Collected], result: Result
) -> dict[str, Any]:
    hosts: dict[str, tuple[Path | None, int, str | None]] = {}
    shares = result.crew.shares if result.crew else {}
    for session in sessions:
        one, share = collected.get(session.name), shares.get(session.name)
        error = (share.error if share else None) or session.error
        why = getattr(error, "message", None) or (str(error) if error else None)
        if one is None:
            hosts[session.name] = (None, 0, why or "was not asked")
        else:
            hosts[session.name] = (one.manifest, len(one.holding.entries), why or one.why or None)
    failed = result.crew.failed if result.crew else {}
    return telling.document(place.root, hosts, shares, wanted=result.wanted, present=result.present, failed=failed)


def _raise(troubles: Sequence[PrudentError]) -> None:
    """Tell all troubles; the worst, which speaks with its exit code, is told by whoever catches it."""
    if not troubles:
        return
    code = worst([error.exit_code for error in troubles])
    speaker = next(error for error in troubles if error.exit_code == code)
    for error in troubles:
        if error is not speaker:
            print_error(Screen().console, error)
    raise speaker
