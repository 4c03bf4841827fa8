"""Ask a question of a clean process that runs under the job's exact environment.

The child is `python -m remote ROLE`, gets the request on stdin and answers on a pipe of its own, so nothing that
libraries print can harm the answer. What it prints is kept (its end) for the account of a crash. It does not outlive
whoever waits for the answer: a probe that went on after its link broke would hold the GPUs against the next one.
"""

from __future__ import annotations

import contextlib
import os
import select
import selectors
import signal
import subprocess
import tempfile
import time
from typing import TYPE_CHECKING, Any, TypeVar

from remote import wire
from remote.environment import job_environment

if TYPE_CHECKING:
    from collections.abc import Mapping

    from remote.paths import Bundle
    from remote.schema import Job

RESULT_ENV = "PRUDENT_GATE_RESULT"
KEPT_OUTPUT = 64 * 1024
LOOK = 1.0  # seconds between two looks whether anybody still waits
_GIVEN = os.environ.get(RESULT_ENV, "")  # read before anything is imported that could lose it
T = TypeVar("T")


class ChildCrashed(Exception):
    """The child ended without an answer; `code` is its exit status (None: killed at the deadline)."""

    def __init__(self, role: str, code: int | None, output: str) -> None:
        how = "gave no answer in time" if code is None else f"ended with status {code} and no answer"
        super().__init__(f"{role} {how}")
        self.role = role
        self.code = code
        self.output = output


def ask(
    role: str,
    request: Any,
    answer: type[T],
    *,
    job: Job,
    bundle: Bundle,
    deadline: float,
    secrets: Mapping[str, str] | None = None,
) -> T:
    """Run a role under the job's environment and give its answer; raises ChildCrashed."""
    receiving, sending = os.pipe()
    with tempfile.TemporaryFile() as said, tempfile.TemporaryFile() as asked:
        asked.write(wire.dumps(request).encode())
        asked.seek(0)
        try:
            process = subprocess.Popen(
                [job.python, "-m", "remote", role],
                stdin=asked,
                stdout=said,
                stderr=said,
                env=job_environment(job, bundle, secrets=secrets, marks={RESULT_ENV: str(sending)}),
                pass_fds=(sending,),
                start_new_session=True,
                cwd=str(bundle.root),
            )
        except OSError:
            os.close(receiving)
            raise
        finally:
            os.close(sending)
        try:
            body, in_time = _drain(receiving, time.monotonic() + deadline)
            if in_time:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(timeout=10)
        finally:
            os.close(receiving)
            _end_group(process)
        try:
            return wire.loads(answer, body, role)
        except wire.WireError as error:  # nothing, or half an answer
            raise ChildCrashed(role, process.returncode if in_time else None, _end_of(said)) from error


def reply(answer: Any) -> None:
    """In the child: send the answer to the asker."""
    body = wire.dumps(answer).encode()
    with os.fdopen(int(_GIVEN), "wb") as pipe:
        pipe.write(b"%d\n" % len(body) + body)


def _drain(descriptor: int, until: float) -> tuple[bytes, bool]:
    """Read one whole answer, or to the end of the pipe; False when the deadline came first.

    The answer says its length: a process that an import left behind may hold the pipe open for ever. An asker whom
    nobody listens to any more has come to its deadline, too.
    """
    said = b""
    parent = os.getppid()
    with selectors.DefaultSelector() as selector:
        selector.register(descriptor, selectors.EVENT_READ)
        while (left := until - time.monotonic()) > 0:
            if not selector.select(min(left, LOOK)):
                if _forsaken(parent):
                    break
                continue
            part = os.read(descriptor, 1 << 16)
            said += part
            size, _, body = said.partition(b"\n")
            if not part or (size.isdigit() and len(body) >= int(size)):
                return body, True
    return b"", False


def _forsaken(parent: int) -> bool:
    """Tell whether the SSH session that started this process is gone: its parent, or who reads its stderr."""
    look = select.poll()
    look.register(2, 0)
    return os.getppid() != parent or any(mask & (select.POLLHUP | select.POLLERR) for _, mask in look.poll(0))


def _end_group(process: subprocess.Popen[bytes]) -> None:
    """End the child and everything that it started in its session's group."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _end_of(said: Any) -> str:
    size = said.seek(0, os.SEEK_END)
    said.seek(max(0, size - KEPT_OUTPUT))
    return bytes(said.read()).decode("utf-8", "replace")
