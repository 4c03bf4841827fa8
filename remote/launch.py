"""Verb `launch`: start a run exactly once, detached from everything that could end with us, and say how it went.

The lock on the output folder decides: who gets it starts a run and hands the lock down to the supervisor, everybody
else is told which run has it. The answer comes when the supervisor has started the first attempt, or cannot.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from remote import failures, files, inuse, locks, overlay, wire
from remote.engines.command import LineProgress
from remote.host import processes, shared_memory, sockets
from remote.paths import RUN_ENV, Bundle, Output, Run, Workdir
from remote.run import handshake, room, runs, suspects
from remote.schema import LaunchAnswer, LaunchRequest

if TYPE_CHECKING:
    from collections.abc import Mapping

SIGNING = 10.0  # seconds that a holder of the lock may take to say who it is, or to let go when its run has ended
SAID = 2000  # characters of the supervisor's own words that an answer quotes
LEFTOVER_GRACE = 2.0
HANG_ACTIONS = ("restart", "report")


class Refused(Exception):
    """The run cannot start; the message says why and what to do."""


def answer(request: LaunchRequest) -> LaunchAnswer:
    """Start the run or attach to the one that has the output folder."""
    try:
        _validate(request)
        return _start_or_attach(request, _output(request.job.output))
    except Refused as error:
        return LaunchAnswer(outcome="refused", message=str(error))


def _validate(request: LaunchRequest) -> None:
    job = request.job
    _still_there(Workdir(PurePosixPath(job.workdir)).bundle(request.bundle))
    if not os.access(job.python, os.X_OK):
        raise Refused(f"no such Python: {job.python}; set `python` to that of the environment that has vLLM")
    if not PurePosixPath(job.output).is_absolute():
        raise Refused(f"output must be an absolute path on the host, not {job.output!r}")
    try:
        failures.with_patterns(job.retry.patterns)
    except ValueError as error:
        raise Refused(str(error)) from error
    if job.retry.hang not in HANG_ACTIONS:
        raise Refused(f"retry.hang: expected {' or '.join(HANG_ACTIONS)}, found {job.retry.hang!r}")
    if job.engine == "command":
        if not job.command:
            raise Refused('engine `command` needs a command: command = ["python3", "/path/script.py"]')
        try:
            LineProgress.of(job.progress)
        except ValueError as error:
            raise Refused(str(error)) from error


def _still_there(bundle: Bundle) -> None:
    if not Path(bundle.entry).is_file():
        raise Refused(f"the bundle {bundle.root.name[:12]} is not on the host (any more): run preflight again")


def _output(path: str) -> Output:
    """Make the output folder; what the file system says against it is the refusal."""
    try:
        Path(path).mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError) as error:
        raise Refused(f"output folder {path}: something on its way is no folder ({error.filename})") from error
    except OSError as error:
        raise Refused(f"output folder {path} cannot be made: {error.strerror}; {_REMEDY}") from error
    return Output(PurePosixPath(path))


_REMEDY = "choose another `output`, or give the job's user the right to write there"


def _lock(output: Output) -> int | None:
    try:
        return locks.take(output)
    except OSError as error:
        raise Refused(f"output folder {output.root} cannot be written: {error.strerror}; {_REMEDY}") from error


def _start_or_attach(request: LaunchRequest, output: Output) -> LaunchAnswer:
    """Start when the lock can be had, attach when its holder says who it is; both may take a moment."""
    began, holder = time.monotonic(), None
    while time.monotonic() - began < (request.deadline if holder else SIGNING):
        lock = _lock(output)
        if lock is not None:
            try:
                return _start(request, lock)
            finally:
                os.close(lock)  # the supervisor has its own
        holder = locks.holder(output)
        if holder is not None:
            run = runs.find(holder.workdir, holder.run)
            # Signed, but without an attempt: its launcher or supervisor may still be killed, and the run be removed.
            if run is not None and (seen := runs.look(run)).active and seen.state is not None and seen.state.attempt:
                return _attached(holder, request.job.workdir)
        time.sleep(0.05)  # it has not signed yet, or is about to let go
    raise Refused(f"the output folder {output.root} is locked by a process that does not say which run it is")


def _attached(holder: locks.Holder, workdir: str) -> LaunchAnswer:
    if not _same_folder(holder.workdir, workdir):
        raise Refused(
            f"run {holder.run} of the workdir {holder.workdir} writes to this output folder; "
            "follow it there, stop it, or choose another `output`"
        )
    return LaunchAnswer(outcome="attached", run=holder.run, message="a run has this output folder already")


def _same_folder(one: str, other: str) -> bool:
    return os.path.realpath(one) == os.path.realpath(other)


def _start(request: LaunchRequest, lock: int) -> LaunchAnswer:
    reaped = _end_lost(request.job.workdir)
    sockets.sweep_left(request.job.env)
    before = _before(request)
    bundle = Workdir(PurePosixPath(request.job.workdir)).bundle(request.bundle)
    with inuse.shared(request.job.workdir):  # from here on the run's folder names the bundle, and keeps it
        _still_there(bundle)
        run = _make_folder(request)
    try:
        locks.sign(lock, locks.Holder(run.id, request.job.workdir))
        if before is not None:
            suspects.inherit(run, before)
        if Path(bundle.patched).is_dir():
            overlay.ensure(bundle, request.job.python)
        _spawn_and_wait(request, bundle, run, lock, reaped=reaped)
    except BaseException:
        sockets.sweep(run)  # its folder says where they are
        shutil.rmtree(run.root, ignore_errors=True)
        raise
    return LaunchAnswer(outcome="started", run=run.id)


def _end_lost(workdir: str) -> bool:
    """End what lost runs of this workdir have left behind; True when there was something."""
    found = False
    for run in runs.folders(workdir):
        if runs.look(run).lost is None:
            continue
        room.drop_ballast(run)
        if living := processes.of_run(run):
            found = True
            shared_memory.add(run, [process.pid for process in living])
            left = processes.end(lambda run=run: processes.of_run(run), grace=LEFTOVER_GRACE)  # type: ignore[misc]
            if left:
                raise Refused(f"processes of the lost run {run.id} cannot be ended: {left}; the host may need a reboot")
        shared_memory.sweep(run)
        sockets.sweep(run)
    return found


def _before(request: LaunchRequest) -> Run | None:
    """Give the run that wrote to this output last when it is lost: this one goes on where it was left."""
    for run in runs.folders(request.job.workdir):
        found = runs.look(run)
        if found.request is not None and found.request.job.output == request.job.output and found.state is not None:
            return run if found.lost is not None else None
    return None


def _make_folder(request: LaunchRequest) -> Run:
    """Make the run's folder with its job."""
    root = Workdir(PurePosixPath(request.job.workdir))
    try:
        Path(root.runs).mkdir(mode=0o700, parents=True, exist_ok=True)
        while True:
            newest = next(iter(runs.folders(request.job.workdir)), None)
            run = root.run(runs.next_id(newest.id if newest else None, time.time()))
            with contextlib.suppress(FileExistsError):  # another output's run, begun at this very moment
                Path(run.root).mkdir(mode=0o700)
                break
        _fill_folder(run, request)
    except OSError as error:
        raise Refused(
            f"the workdir {root.root} cannot be written: {error.strerror}; free space or set `workdir`"
        ) from error
    return run


def _fill_folder(run: Run, request: LaunchRequest) -> None:
    try:
        files.replace(run.job, wire.dumps(dataclasses.replace(request, secrets={})).encode())
        room.load_ballast(run)
    except OSError:
        shutil.rmtree(run.root, ignore_errors=True)  # a folder without a supervisor would look like a run that starts
        raise


def _spawn_and_wait(request: LaunchRequest, bundle: Bundle, run: Run, lock: int, *, reaped: bool) -> None:
    """Start the supervisor in a session of its own and wait for its word."""
    receiving, sending = os.pipe()
    try:
        process = _spawn(bundle, run, sending, lock, reaped=reaped)
        os.close(sending)
        _hand_over(process, request.secrets)
        said = handshake.wait(receiving, request.deadline)
    finally:
        os.close(receiving)
    if said is not None and said[0] == "started":
        process.returncode = 0  # it lives on without us: nobody waits for it
        return
    why = said[1] if said else _silence(process, request.deadline)
    process.kill()
    process.wait()
    processes.end(lambda: processes.of_run(run), grace=LEFTOVER_GRACE)
    raise Refused(why if said else f"{why}{_words(run)}")


def _hand_over(process: subprocess.Popen[bytes], confided: Mapping[str, str]) -> None:
    """Tell the supervisor the secrets on its standard input: no file ever holds them, whoever is killed when."""
    assert process.stdin is not None  # noqa: S101 - it was asked for
    with contextlib.suppress(BrokenPipeError):  # it has ended: the handshake tells
        process.stdin.write(json.dumps(dict(confided)).encode())
        process.stdin.close()


def _silence(process: subprocess.Popen[bytes], deadline: float) -> str:
    """Say why the supervisor has given no word: it has ended, or the time is over."""
    try:
        code = process.wait(1.0)
    except subprocess.TimeoutExpired:
        return f"the supervisor did not start within {deadline:.0f} s"
    how = f"was ended by signal {-code}" if code < 0 else f"ended with exit code {code}"
    return f"the supervisor {how} before it could start the job"


def _spawn(bundle: Bundle, run: Run, sending: int, lock: int, *, reaped: bool) -> subprocess.Popen[bytes]:
    words = [sys.executable, "-I", "-B", str(bundle.entry), "supervise", str(run.root), str(sending), str(lock)]
    log = os.open(run.supervisor_log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        return subprocess.Popen(
            [*_nohup(), *words, *(["reaped"] if reaped else [])],
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            cwd=run.root,
            env={name: value for name, value in os.environ.items() if name != RUN_ENV},
            pass_fds=(sending, lock),
            start_new_session=True,
        )
    finally:
        os.close(log)


def _nohup() -> list[str]:
    """Give the words that keep hangups away; the supervisor ignores them anyhow."""
    return ["nohup"] if shutil.which("nohup") else []


def _words(run: Run) -> str:
    said = Path(run.supervisor_log).read_text(errors="replace").strip()
    return f"; it said: {said[-SAID:]}" if said else " and said nothing"
