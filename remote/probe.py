"""Verb `probe`: the levels that need the job's imports, in one clean process under the job's exact environment.

The child does the work; here is what must not fail with it: the overlay is made, and a child that ends without an
answer (a segmentation fault, `os._exit`, a deadline) becomes a finding that says how it ended, at which module, and
what it said last.
"""

from __future__ import annotations

import signal
import tempfile
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from remote import children, overlay
from remote.children import ChildCrashed
from remote.overlay import OverlayFailed
from remote.paths import Workdir
from remote.probe_child import ProbeChild, rehearses
from remote.schema import Check, Finding, ProbeAnswer

if TYPE_CHECKING:
    from remote.paths import Bundle
    from remote.schema import ProbeRequest

CLOSING = 30.0  # a rehearsal that ran into its limit tidies up and answers by itself
TOLD = 4000  # characters of a crashed child's last words
MEANINGS: dict[int, str] = {
    signal.SIGSEGV: "a segmentation fault: a native library is broken or does not fit",
    signal.SIGABRT: "abort: a native library gave up",
    signal.SIGILL: "an illegal instruction: a native library is built for another processor",
    signal.SIGBUS: "a bus error: a mapped file is cut short, or /dev/shm is full",
    signal.SIGKILL: "killed from outside: most often for want of memory",
}


def answer(request: ProbeRequest) -> ProbeAnswer:
    """Probe the modules of the job's gate."""
    bundle = Workdir(PurePosixPath(request.job.workdir)).bundle(request.bundle)
    try:
        overlay.ensure(bundle, request.job.python)
    except OverlayFailed as error:
        return _failed(Finding(rule="overlay-failed", message=str(error)))
    with tempfile.TemporaryDirectory(prefix="prudent-gate-") as folder:
        return _ask(request, bundle, Path(folder, "trail"))


def _ask(request: ProbeRequest, bundle: Bundle, trail: Path) -> ProbeAnswer:
    deadline = request.deadline + (request.rehearsal + CLOSING if rehearses(request.job, request.until) else 0.0)
    try:
        return children.ask(
            "probe-child",
            ProbeChild(
                job=request.job,
                root=str(bundle.root),
                trail=str(trail),
                until=request.until,
                deadline=request.deadline,
                rehearsal=request.rehearsal,
                patched=request.patched,
                usd_per_hour=request.usd_per_hour,
            ),
            ProbeAnswer,
            job=request.job,
            bundle=bundle,
            deadline=deadline,
            secrets=request.secrets,
        )
    except ChildCrashed as crash:
        at = trail.read_text(encoding="utf-8") if trail.is_file() else ""
        return _failed(described(crash, at, deadline))
    except OSError as error:
        return _failed(Finding(rule="no-python", message=f"{request.job.python} cannot be started: {error.strerror}"))


def described(crash: ChildCrashed, module: str, deadline: float) -> Finding:
    """Say how a child ended that gave no answer; `module` is what it was importing."""
    during = f"while importing {module}" if module else "after all imports"
    if crash.code is None:
        rule, how = "import-timeout", f"no end within {deadline:g} s"
    elif crash.code < 0:
        name = _signal_name(-crash.code)
        rule, how = f"import-crash-{name.lower()}", MEANINGS.get(-crash.code, f"ended by {name}")
    else:
        rule, how = "import-exit", f"the process ended itself with status {crash.code}"
    return Finding(
        rule=rule,
        message=f"{during}: {how}",
        callee=module or None,
        text=crash.output[-TOLD:].strip() or None,
    )


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal-{number}"


def _failed(finding: Finding) -> ProbeAnswer:
    skipped = Check(id="signature", status="skip", facts={"reason": "the import level failed"})
    return ProbeAnswer(checks=(Check(id="import", status="fail", findings=(finding,)), skipped))
