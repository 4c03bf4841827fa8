"""Verb `probe`: the levels that need the job's imports, in one clean process under the job's exact environment.

The child does the work; here is what must not fail with it: the overlay is made, and a child that ends without an
answer (a segmentation fault, `os._exit`, a deadline) becomes a finding that says how it ended, at which module, and
what it said last. Verb `levels` sends each level's check as it ends: {"kind": "check"} with the check as body, then
{"kind": "end"}.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import stat
import tempfile
import time
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from remote import children, overlay, wire
from remote.children import ChildCrashed
from remote.gate.probe_child import ProbeChild, rehearses
from remote.host import exhausted
from remote.overlay import OverlayFailed
from remote.paths import Workdir
from remote.schema import Check, Finding, ProbeAnswer

if TYPE_CHECKING:
    from collections.abc import Generator

    from remote.channel import Channel
    from remote.paths import Bundle
    from remote.schema import ProbeRequest

LEVELS = ("import", "signature", "contract", "inputs", "rehearsal")
CLOSING = 30.0  # a rehearsal that ran into its limit tidies up and answers by itself
SCRATCH = "prudent-gate-probe-"  # folders of probes, where temporary files are; the rehearsal's samples too
STALE = 24 * 3600.0  # seconds: no probe takes that long
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
    return ProbeAnswer(checks=tuple(levels(request)))


def stream(request: ProbeRequest, channel: Channel) -> None:
    """Send each check as it is decided; a reader that has gone away ends the probe."""
    with contextlib.suppress(BrokenPipeError), contextlib.closing(levels(request)) as decided:
        for check in decided:
            channel.frame({"kind": "check"}, wire.dumps(check).encode())
        channel.frame({"kind": "end"})


def levels(request: ProbeRequest) -> Generator[Check]:
    """Give the checks of the levels from `import` on, one by one."""
    bundle = Workdir(PurePosixPath(request.job.workdir)).bundle(request.bundle)
    try:
        overlay.ensure(bundle, request.job.python)
    except OverlayFailed as error:
        yield from _failed(Finding(rule="overlay-failed", message=str(error)))
        return
    _sweep()
    with tempfile.TemporaryDirectory(prefix=SCRATCH) as folder:
        yield from _ask(request, bundle, Path(folder, "trail"))


def _sweep() -> None:
    """Remove the folders of probes that were killed themselves: their owners cannot."""
    for folder in Path(tempfile.gettempdir()).glob(f"{SCRATCH}*"):
        with contextlib.suppress(OSError):
            seen = folder.lstat()
            if stat.S_ISDIR(seen.st_mode) and seen.st_uid == os.geteuid() and time.time() - seen.st_mtime > STALE:
                shutil.rmtree(folder, ignore_errors=True)


def _ask(request: ProbeRequest, bundle: Bundle, trail: Path) -> Generator[Check]:
    deadline = request.deadline + (request.rehearsal + CLOSING if rehearses(request.job, request.until) else 0.0)
    child = ProbeChild(
        job=request.job,
        root=str(bundle.root),
        trail=str(trail),
        until=request.until,
        deadline=request.deadline,
        rehearsal=request.rehearsal,
        patched=request.patched,
        usd_per_hour=request.usd_per_hour,
        sharers=request.sharers,
        card=request.card,
    )
    decided = 0
    try:
        answers = children.answers(
            "probe-child", child, Check, job=request.job, bundle=bundle, deadline=deadline, secrets=request.secrets
        )
        with contextlib.closing(answers):
            for check in answers:
                decided += 1
                yield check
    except ChildCrashed as crash:
        at = trail.read_text(encoding="utf-8") if trail.is_file() else ""
        yield from _failed(described(crash, at, deadline, level=LEVELS[min(decided, len(LEVELS) - 1)]), decided)
    except OSError as error:
        yield from _failed(
            Finding(rule="no-python", message=f"{request.job.python} cannot be started: {error.strerror}")
        )


def described(crash: ChildCrashed, module: str, deadline: float, *, level: str = "import") -> Finding:
    """Say how a child ended that gave no answer; `module` is what it was importing, `level` what it was deciding."""
    during = f"while importing {module}" if module else f"after all imports, at level {level}"
    if crash.code is None:
        rule, how = f"{level}-timeout", f"no end within {deadline:g} s"
    elif crash.code < 0:
        name = _signal_name(-crash.code)
        rule, how = f"{level}-crash-{name.lower()}", MEANINGS.get(-crash.code, f"ended by {name}")
    else:
        rule, how = f"{level}-exit", f"the process ended itself with status {crash.code}"
    return Finding(
        rule=rule,
        message=f"{during}: {how}{exhausted.told(crash.output)}",
        callee=module or None,
        text=crash.output[-TOLD:].strip() or None,
    )


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal-{number}"


def _failed(finding: Finding, decided: int = 0) -> Generator[Check]:
    """Let the level fail that was being decided; after a failed import nobody can look at signatures."""
    level = LEVELS[min(decided, len(LEVELS) - 1)]
    yield Check(id=level, status="fail", findings=(finding,))
    if level == LEVELS[0]:
        yield Check(id="signature", status="skip", facts={"reason": "the import level failed"})
