"""Role `hook`: run the commands of one occasion, one after the other, each to its end or its deadline.

A process of its own, so that neither the supervisor waits for a hook nor its end harms one. On stdin one JSON object:
`run` (its folder), `occasion`, `commands`, `environment`, `secrets` (values to mask). What commands say goes to the
run's hooks.log, how they end to its hooks.events, from where the supervisor takes it.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import selectors
import signal
import subprocess
import sys
import time
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from remote import files, masks
from remote.paths import Run

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

DEADLINE = 300.0  # seconds for one command
GRACE = 2.0
TICK = 0.05
KEPT = 1 << 20  # bytes of a command's output that are kept: its start


def main(arguments: list[str]) -> int:
    """Run what stdin says; gives the exit code."""
    del arguments
    signal.pthread_sigmask(signal.SIG_SETMASK, ())  # the supervisor blocks what it waits for
    asked = json.loads(sys.stdin.buffer.read())
    run = Run(PurePosixPath(asked["run"]))
    for number, command in enumerate(asked["commands"], 1):
        _one(run, asked, number, command)
    return 0


def _one(run: Run, asked: dict[str, Any], number: int, command: str) -> None:
    began = time.monotonic()
    code, said = execute(command, asked["environment"], cwd=str(run.root), deadline=asked.get("deadline", DEADLINE))
    seconds = round(time.monotonic() - began, 1)
    how = f"no end within {seconds:g} s: ended" if code is None else f"exit code {code}"
    head = f"--- {asked['occasion']} {number}, {how}, {seconds:g} s ---\n"
    event = {
        "event": "hook", "occasion": asked["occasion"], "number": number, "code": code, "seconds": seconds,
    }  # fmt: skip
    with contextlib.suppress(OSError):  # a full disk or a folder that was cleaned away: the hook has run all the same
        _append(run, head.encode() + masked(said, asked["secrets"]))
    with contextlib.suppress(OSError):
        files.append_line(run.hooks_events, json.dumps(event, separators=(",", ":")).encode())


def execute(command: str, environment: dict[str, str], *, cwd: str, deadline: float) -> tuple[int | None, bytes]:
    """Run a command of the shell; gives its exit code, None where it had to be ended, and what it said."""
    try:
        with _leash() as group:
            process = subprocess.Popen(
                ["/bin/sh", "-c", command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                env=environment, cwd=cwd if Path(cwd).is_dir() else "/",
                preexec_fn=functools.partial(os.setpgid, 0, group),  # noqa: PLW1509 - this process has one thread
            )  # fmt: skip
            try:
                return _hear(process, group, time.monotonic() + deadline)
            finally:
                if process.stdout is not None:
                    process.stdout.close()
    except (OSError, subprocess.SubprocessError) as error:
        return 127, f"cannot be started ({getattr(error, 'strerror', None) or error})\n".encode()


@contextlib.contextmanager
def _leash() -> Iterator[int]:
    """Give a process group that is killed as a whole when we are killed: we cannot end what is in it any more then.

    Its leader waits for the end of a pipe that nobody but us holds open. A session would belong to the run.
    """
    leader = subprocess.Popen(
        ["/bin/sh", "-c", "read -r _; kill -9 0"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL, env={}, cwd="/", preexec_fn=os.setpgrp,  # noqa: PLW1509 - this process has one thread
    )  # fmt: skip
    try:
        yield leader.pid
    finally:
        leader.kill()  # alone: what a command has left in the background goes on
        leader.wait()
        if leader.stdin is not None:
            leader.stdin.close()


def _hear(process: subprocess.Popen[bytes], group: int, until: float) -> tuple[int | None, bytes]:
    """Take in what is said until the command itself has ended: what it leaves in the background is not waited for."""
    assert process.stdout is not None  # noqa: S101 - it was asked for
    os.set_blocking(process.stdout.fileno(), False)
    said = bytearray()
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        while process.poll() is None and time.monotonic() < until:
            if selector.get_map():
                for _ in selector.select(TICK):
                    _take(selector, process, said)
            else:
                time.sleep(TICK)
        late = process.returncode is None
        if late:
            _end(process, group)
        _take(selector, process, said)
    return None if late else _code(process.returncode), bytes(said)


def _take(selector: selectors.BaseSelector, process: subprocess.Popen[bytes], said: bytearray) -> None:
    """Read what is there; at the end of the output nothing more is listened for."""
    assert process.stdout is not None  # noqa: S101 - it was asked for
    with contextlib.suppress(BlockingIOError):
        while part := os.read(process.stdout.fileno(), 1 << 16):
            said += part[: max(0, KEPT - len(said))]
        with contextlib.suppress(KeyError):
            selector.unregister(process.stdout)


def _end(process: subprocess.Popen[bytes], group: int) -> None:
    """End a command and what it started in its group."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(group, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(GRACE)


def _code(code: int) -> int:
    return code if code >= 0 else 128 - code


def masked(said: bytes, secrets: Iterable[str]) -> bytes:
    """Put asterisks in place of secrets; output that was cut off at KEPT may end within one."""
    return masks.mask_bytes(said, secrets, end=len(said) >= KEPT)


def _append(run: Run, data: bytes) -> None:
    descriptor = os.open(run.hooks_log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    with os.fdopen(descriptor, "ab") as file:
        file.write(data if data.endswith(b"\n") else data + b"\n")
