"""Verdicts: made from checks, compared with the last pass, kept on the host."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from typing import TYPE_CHECKING

from local.errors import GaveUp
from local.levels.decide import FAIL
from local.patches import known_as
from remote.schema import Verdict, VerdictAnswer, VerdictRequest

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from local.host import Host
    from local.patches import Applied
    from remote.schema import Check, HostFacts, Job

DEADLINE = 60.0
SHOWN = 12  # changes told by name
# What of a job may change without touching what the gate proved.
RECORD = "record "
# What is kept of these is a digest or a size, which tells nobody anything: that it changed is all there is to say.
MARKS = {
    "record": "the files of {} as installed",
    "sources": "the sources of {} (edited in place)",
    "patched": "patched {}",
    "model": "model file {}",
    "session": "the session's {}",
    "dataset": "the dataset",
    "payload": "our payload",
    "python build": "the build of Python",
    "job.env": "job.env",
}
NOT_PROVEN = frozenset({"name", "retry", "secret_env", "progress"})


def make(checks: Sequence[Check], *, decided: float, fingerprint: str = "", bundle: str = "") -> Verdict:
    """Give the verdict on the checks made so far: one failed check fails it."""
    failed = [check.id for check in checks if check.status == FAIL]
    level = failed[0] if failed else checks[-1].id
    return Verdict(
        fingerprint=fingerprint,
        bundle=bundle,
        verdict="fail" if failed else "pass",
        level=level,
        decided=decided,
        checks=tuple(checks),
    )


def basis(facts: HostFacts, job: Job, applied: Applied, *, payload: str = "") -> dict[str, str]:
    """Name what a verdict rests on, so that a later one can say what changed."""
    found = {"job": job.name, "payload": payload}
    # vLLM's CPU build is vLLM, here as for patches.
    records = {name.removeprefix(RECORD): value for name, value in facts.basis.items() if name.startswith(RECORD)}
    found |= {name: value for name, value in facts.basis.items() if not name.startswith(RECORD)}
    found |= {f"{RECORD}{name}": value for name, value in known_as(records).items()}
    found |= {f"package {name}": version for name, version in known_as(facts.distributions).items()}
    found |= {f"patched {path}": _digest(text) for path, text in applied.files.items()}
    for name, value in dataclasses.asdict(job).items():
        if name not in NOT_PROVEN:
            text = json.dumps(value, sort_keys=True)
            # Values of the environment may be secrets: only their digest is kept.
            found[f"job.{name}"] = _digest(text) if name == "env" else text
    return found


def changes(before: Mapping[str, str], after: Mapping[str, str]) -> tuple[str, ...]:
    """Say in words what differs, most telling first: `vllm 0.16.0 → 0.16.1`."""
    if not before:
        return ()
    differ = {name for name in set(before) | set(after) if before.get(name) != after.get(name)}
    differ -= {name for name in differ if _follows(name, differ)}
    names = sorted(differ, key=lambda name: (not name.startswith("package "), name))
    said = list(dict.fromkeys(_change(name, before.get(name), after.get(name)) for name in names))
    return (*said[:SHOWN], f"and {len(said) - SHOWN} more") if len(said) > SHOWN else tuple(said)


def ask(host: Host, job: Job, *, bundle: str) -> VerdictAnswer:
    """Ask the host for the fingerprint of its present environment and what was decided for it."""
    request = VerdictRequest(job=job, bundle=bundle)
    return host.call("verdict", request, VerdictAnswer, bundle=bundle, deadline=DEADLINE)


def keep(host: Host, job: Job, verdict: Verdict, facts: HostFacts) -> None:
    """Store a verdict on the host; raises GaveUp where what a pass rests on changed while it was looked at.

    Half of the levels have then seen what stood there before, and half what stands there now: nothing is proven.
    """
    passed = verdict.verdict == "pass"
    request = VerdictRequest(job=job, bundle=verdict.bundle, store=verdict, still=passed)
    answer = host.call("verdict", request, VerdictAnswer, bundle=verdict.bundle, deadline=DEADLINE)
    if passed and answer.fingerprint != verdict.fingerprint:
        changed = ", ".join(changes(facts.basis, answer.basis)) or "something that the verdict rests on changed"
        raise GaveUp(
            f"the host changed while the gate looked at it: {changed}",
            where=host.name,
            remedy="All levels passed, but not all of them on what is there now. "
            "Run it again once nobody else works on that.",
        )


def roomy(verdict: Verdict, facts: HostFacts, *, sharers: int = 1) -> bool:
    """Say whether what a remembered verdict reckoned with still has room: where it may not, the gate counts anew.

    A disk fills without anything changing that a verdict rests on. What a run of this job has written since counts as
    if it was still to be written: nobody has looked.
    """
    planned = next((check.facts.get("output") for check in verdict.checks if check.id == "inputs"), None)
    disk = facts.disks.get("output")
    if not isinstance(planned, dict) or disk is None:
        return True
    try:
        size, files = (planned[name] // max(sharers, 1) for name in ("size", "samples"))
        bytes_left = max(size - planned["held"], 0) + planned["largest"]
        files_left = max(files - planned["files"], 0)
    except (KeyError, TypeError):
        return False
    return bool(bytes_left <= disk.free and (files_left <= disk.inodes_free or not disk.inodes_free))


def _follows(name: str, differ: Collection[str]) -> bool:
    """Say whether a change goes without saying: what a release changes of a package, a build, its files."""
    kind, _, package = name.partition(" ")
    above = {"record": ("package",), "sources": ("package", "record")}.get(kind, ())
    return any(f"{each} {package}" in differ for each in above)


def _change(name: str, before: str | None, after: str | None) -> str:
    kind, _, rest = name.partition(" ")
    if kind in MARKS or name in MARKS:
        told = MARKS.get(name) or MARKS[kind].format(rest)
        return f"{told} {'changed' if before and after else 'added' if after else 'gone'}"
    name = name.removeprefix("package ")
    if before is None:
        return f"{name} {after} added"
    return f"{name} {before} gone" if after is None else f"{name} {before} → {after}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]
