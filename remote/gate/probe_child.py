"""Role `probe-child`: imports the gated modules under the job's environment, once for all levels that need them.

Reads a ProbeChild document on stdin and answers a Check for each level on the asker's pipe; arguments: none; exit code
0. The file that the document calls `trail` receives the name of each module before it is imported: should the import
end the process, the asker knows which it was.
"""

from __future__ import annotations

import faulthandler
import hashlib
import multiprocessing
import os
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from remote import children, leash, overlay, wire
from remote.code import imports, libraries, signatures, variables
from remote.engines import base
from remote.engines.defaults import gate_of
from remote.gate import garbage, levels
from remote.paths import Bundle
from remote.rehearsal import stage
from remote.rehearsal.limit import forget_shared_memory
from remote.schema import Check, Finding, Job

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
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
    sharers: int = 1
    card: int = 0


def rehearses(job: Job, until: str | None) -> bool:
    """Tell whether the rehearsal is wanted, and the engine has one."""
    return until in {None, "rehearsal"} and job.engine in base.ENGINES


def main(arguments: Sequence[str]) -> int:
    """Answer what is asked on stdin, each check as it is decided; gives the exit code."""
    del arguments
    faulthandler.enable()
    leash.hold(forget_shared_memory)
    process = os.getpid()
    request = wire.loads(ProbeChild, sys.stdin.buffer.read(), "probe-child")
    for check in probe(request, give_up=_answer):
        if os.getpid() != process:  # an import forked: only one of the two may answer
            os._exit(0)
        children.reply(check, last=False)
    children.end()
    os._exit(0)


def _answer(check: Check) -> None:
    """Answer and end: nothing that a library does at its end concerns the answer."""
    children.reply(check)
    os._exit(0)


def probe(request: ProbeChild, *, give_up: Callable[[Check], None]) -> Iterator[Check]:
    """Yield the check of each level, importing once; one that fails, or is the last wanted, ends it."""
    for check in _levels(request, give_up):
        yield check
        if check.id == "import" and check.status == "fail":
            yield Check(id="signature", status="skip", facts={"reason": "the import level failed"})
        if check.status == "fail" or check.id == request.until:
            return


def _levels(request: ProbeChild, give_up: Callable[[Check], None]) -> Iterator[Check]:
    """Yield all checks: each level is looked at when its check is asked for."""
    job, bundle = request.job, Bundle(PurePosixPath(request.root))
    place = str(bundle.overlay)
    patched = {imports.module_name(path): file for path, file in overlay.patched_files(bundle).items()}
    modules = tuple(dict.fromkeys((*gate_of(job).modules, *patched)))
    yield _with_variables(_import_level(modules, patched, place, Path(request.trail)), job)
    yield _signature_level(job, modules, place)
    yield from levels.after_imports(
        job, patched=request.patched, usd_per_hour=request.usd_per_hour, sharers=request.sharers, card=request.card
    )
    scratch = str(Path(request.trail).parent)  # the asker's, which removes it however this process ends
    yield stage.check(job, list(patched), place, give_up=give_up, most=request.rehearsal, scratch=scratch)


def _import_level(modules: Sequence[str], patched: Mapping[str, Path], place: str, trail: Path) -> Check:
    started = time.monotonic()
    digests = {name: hashlib.sha256(file.read_bytes()).hexdigest() for name, file in patched.items()}
    worker = _Worker(tuple(patched))  # it starts while we import
    findings: list[Finding] = []
    seconds: dict[str, float] = {}
    with garbage.uncollected():
        for name in modules:
            trail.write_text(name, encoding="utf-8")
            begun = time.monotonic()
            finding = imports.load(name, modules, place)
            seconds[name] = round(time.monotonic() - begun, 3)
            findings += [finding] if finding else []
        for name in libraries.hidden(sys.modules):
            trail.write_text(name, encoding="utf-8")
            finding = libraries.load(name)
            findings += [finding] if finding else []
    trail.write_text("", encoding="utf-8")
    loaded = {name: {"file": imports.origin(name)} for name in modules}
    here, workers = imports.located(patched), worker.answer()
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


def _with_variables(check: Check, job: Job) -> Check:
    """Say of each finding which variables of the job's environment it speaks of."""
    told = (replace(one, message=one.message + variables.told(one.message, job.env)) for one in check.findings)
    return replace(check, findings=tuple(told))


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


class _Worker:
    """A spawned process, started as vLLM starts its workers, that says where it would import modules from."""

    def __init__(self, names: tuple[str, ...]) -> None:
        self._names = names
        if names:
            context = multiprocessing.get_context("spawn")
            self._receiving, sending = context.Pipe(duplex=False)
            self._process = context.Process(target=_say, args=(names, sending), daemon=True)
            self._process.start()
            sending.close()

    def answer(self) -> dict[str, dict[str, Any]]:
        """Give what it says, and end it."""
        if not self._names:
            return {}
        nothing: dict[str, dict[str, Any]] = {name: {"file": None, "sha256": None} for name in self._names}
        try:
            return self._receiving.recv() if self._receiving.poll(WORKER_LIMIT) else nothing
        except EOFError:
            return nothing
        finally:
            self._process.join(5)
            self._process.kill()


def _say(names: tuple[str, ...], sending: Connection) -> None:
    sending.send(imports.located(names))
    sending.close()
