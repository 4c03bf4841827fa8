"""Role `probe-child`: imports the gated modules under the job's environment, once for all levels that need them.

Reads a ProbeChild document on stdin and answers a ProbeAnswer on the asker's pipe; arguments: none; exit code 0. The
file that the document calls `trail` receives the name of each module before it is imported: should the import end the
process, the asker knows which it was.
"""

from __future__ import annotations

import faulthandler
import hashlib
import multiprocessing
import os
import sys
import time
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from remote import children, imports, levels, overlay, signatures, wire
from remote.engines import base
from remote.engines.defaults import gate_of
from remote.paths import Bundle
from remote.rehearsal import stage
from remote.schema import Check, Finding, Job, ProbeAnswer

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from multiprocessing.connection import Connection

WORKER_LIMIT = 120.0


@dataclass(frozen=True, kw_only=True, slots=True)
class ProbeChild:
    """What is asked: `root` is the bundle's folder on this host."""

    job: Job
    root: str
    trail: str
    until: str | None = None
    deadline: float = 600.0
    rehearsal: float = 900.0
    patched: bool = False
    usd_per_hour: float | None = None


def rehearses(job: Job, until: str | None) -> bool:
    """Tell whether the rehearsal is wanted, and the engine has one."""
    return until in {None, "rehearsal"} and job.engine in base.ENGINES


def main(arguments: Sequence[str]) -> int:
    """Answer what is asked on stdin; gives the exit code."""
    del arguments
    faulthandler.enable()
    process = os.getpid()
    request = wire.loads(ProbeChild, sys.stdin.buffer.read(), "probe-child")
    checks = probe(request)
    if os.getpid() != process:  # an import forked: only one of the two may answer
        os._exit(0)
    if not _ended(checks, request.until):
        checks += (_rehearsal(request, checks),)
    _answer(checks)
    return 0


def _answer(checks: tuple[Check, ...]) -> None:
    """Answer and end: nothing that a library does at its end concerns the answer."""
    children.reply(ProbeAnswer(checks=checks))
    os._exit(0)


def probe(request: ProbeChild) -> tuple[Check, ...]:
    """Run the levels before the rehearsal, importing once."""
    bundle = Bundle(PurePosixPath(request.root))
    patched = {imports.module_name(path): file for path, file in overlay.patched_files(bundle).items()}
    gate = gate_of(request.job)
    modules = tuple(dict.fromkeys((*gate.modules, *patched)))
    first = _import_level(modules, patched, str(bundle.overlay), Path(request.trail))
    if first.status == "fail":
        return first, Check(id="signature", status="skip", facts={"reason": "the import level failed"})
    if _ended((first,), request.until):
        return (first,)
    both = first, _signature_level(request.job, modules, str(bundle.overlay))
    if _ended(both, request.until):
        return both
    later = levels.after_imports(
        request.job, patched=request.patched, until=request.until, usd_per_hour=request.usd_per_hour
    )
    return *both, *later


def _ended(checks: tuple[Check, ...], until: str | None) -> bool:
    """Tell whether nothing is to be looked at after these."""
    return any(check.status == "fail" or check.id == until for check in checks)


def _rehearsal(request: ProbeChild, before: tuple[Check, ...]) -> Check:
    bundle = Bundle(PurePosixPath(request.root))
    patched = [imports.module_name(path) for path in overlay.patched_files(bundle)]
    return stage.check(
        request.job,
        patched,
        str(bundle.overlay),
        give_up=lambda check: _answer((*before, check)),
        most=request.rehearsal,
    )


def _import_level(modules: Sequence[str], patched: Mapping[str, Path], place: str, trail: Path) -> Check:
    started = time.monotonic()
    digests = {name: hashlib.sha256(file.read_bytes()).hexdigest() for name, file in patched.items()}
    workers = _seen_by_a_worker(tuple(patched))
    findings: list[Finding] = []
    seconds: dict[str, float] = {}
    for name in modules:
        trail.write_text(name, encoding="utf-8")
        begun = time.monotonic()
        finding = imports.load(name, modules, place)
        seconds[name] = round(time.monotonic() - begun, 3)
        findings += [finding] if finding else []
    trail.write_text("", encoding="utf-8")
    loaded = {name: {"file": imports.origin(name)} for name in modules}
    here = imports.located(patched)
    findings += _not_ours(loaded, here, digests, place, "the gate's process", failed={f.callee for f in findings})
    findings += _not_ours(workers, workers, digests, place, "a spawned worker", failed=set())
    return Check(
        id="import",
        status="fail" if findings else "pass" if modules else "skip",
        seconds=round(time.monotonic() - started, 3),
        facts={
            "modules": {name: {**_said(loaded[name], place), "seconds": seconds[name]} for name in modules},
            "workers": {name: _said(workers[name], place) for name in workers},
            "python": sys.version.split()[0],
        },
        findings=tuple(findings),
    )


def _signature_level(job: Job, modules: Sequence[str], place: str) -> Check:
    started = time.monotonic()
    gate = gate_of(job)
    bound = signatures.bind(modules, place)
    printed, missing = signatures.parameters(gate.symbols)
    constants, differing = signatures.constants(gate.constants)
    findings = (*bound.findings, *missing, *differing)
    errors = any(finding.severity == "error" for finding in findings)
    return Check(
        id="signature",
        status="fail" if errors else "warn" if findings else "pass" if modules else "skip",
        seconds=round(time.monotonic() - started, 3),
        facts={
            "calls": {"bound": bound.calls, "skipped": dict(sorted(bound.skipped.items()))},
            "names": bound.names,
            "unread": bound.unread,
            "parameters": printed,
            "constants": constants,
        },
        findings=findings,
    )


def _not_ours(
    seen: Mapping[str, Mapping[str, Any]],
    hashed: Mapping[str, Mapping[str, Any]],
    digests: Mapping[str, str],
    place: str,
    who: str,
    *,
    failed: set[str | None],
) -> list[Finding]:
    """Give a finding for each patched module that somebody would take from elsewhere than the overlay."""
    return [
        Finding(
            rule="overlay-not-used",
            message=f"{who} takes {name} from {seen[name]['file']}, not the patched file: something stands before it "
            "on the path (a .pth file, a finder, or a module of the same name)",
            callee=name,
        )
        for name, digest in digests.items()
        if name not in failed and not (_is_ours(seen[name]["file"], place) and hashed[name]["sha256"] == digest)
    ]


def _said(module: Mapping[str, Any], place: str) -> dict[str, Any]:
    return {"file": module["file"], "overlay": _is_ours(module["file"], place)}


def _is_ours(file: str | None, place: str) -> bool:
    return bool(file) and str(file).startswith(place + "/")


def _seen_by_a_worker(names: tuple[str, ...]) -> dict[str, dict[str, Any]]:
    """Let a spawned process, started as vLLM starts its workers, say where it would import the modules from."""
    if not names:
        return {}
    context = multiprocessing.get_context("spawn")
    receiving, sending = context.Pipe(duplex=False)
    worker = context.Process(target=_say, args=(names, sending), daemon=True)
    worker.start()
    sending.close()
    nothing: dict[str, dict[str, Any]] = {name: {"file": None, "sha256": None} for name in names}
    try:
        return receiving.recv() if receiving.poll(WORKER_LIMIT) else nothing
    except EOFError:
        return nothing
    finally:
        worker.join(5)
        worker.kill()


def _say(names: tuple[str, ...], sending: Connection) -> None:
    sending.send(imports.located(names))
    sending.close()
