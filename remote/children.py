"""Ask a question of a clean process that runs under the job's exact environment.

The child is `python -m remote ROLE`, gets the request on stdin and answers on a pipe of its own, in one document or in
several, one after the other, so nothing that libraries print can harm the answer. What it prints is kept (its end) for
the account of a crash. It does not outlive whoever waits for the answer: a probe that went on after its link broke
would hold the GPUs against the next one.
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

from remote import bytecode, wire
from remote.environment import job_environment
from remote.host import shared_memory, sockets
from remote.leash import ASKER_ENV

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping

    from remote.paths import Bundle
    from remote.schema import Job

RESULT_ENV = "PRUDENT_GATE_RESULT"
KEPT_OUTPUT = 64 * 1024
END = b"end\n"  # in place of a length: no further document
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
    found = tuple(answers(role, request, answer, job=job, bundle=bundle, deadline=deadline, secrets=secrets))
    if not found:
        raise ChildCrashed(role, 0, "")
    return found[0]


def answers(
    role: str,
    request: Any,
    answer: type[T],
    *,
    job: Job,
    bundle: Bundle,
    deadline: float,
    secrets: Mapping[str, str] | None = None,
) -> Generator[T]:
    """Run a role under the job's environment and give each of its answers as it comes; raises ChildCrashed."""
    bytecode.drop_damaged(job.workdir)
    receiving, sending = os.pipe()
    with tempfile.TemporaryFile() as said, tempfile.TemporaryFile() as asked:
        asked.write(wire.dumps(request).encode())
        asked.seek(0)
        environment = job_environment(job, bundle, secrets=secrets, marks=_marks(sending))
        sockets.sweep_left(environment)
        folder = sockets.make(environment)
        try:
            process = subprocess.Popen(
                [job.python, "-m", "remote", role],
                stdin=asked,
                stdout=said,
                stderr=said,
                env=environment,
                pass_fds=(sending,),
                start_new_session=True,
                cwd=str(bundle.root),
            )
        except OSError:
            os.close(receiving)
            sockets.remove(folder)
            raise
        finally:
            os.close(sending)
        pipe, trouble = _Pipe(receiving, time.monotonic() + deadline), None
        try:
            while (body := pipe.document()) is not None:
                yield wire.loads(answer, body, role)
        except wire.WireError as error:
            trouble = error
        finally:
            if pipe.ended:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(timeout=10)
            os.close(receiving)
            _end_group(process)
            sockets.remove(folder)
        if trouble or not pipe.whole:  # nothing, or half an answer
            raise ChildCrashed(role, process.returncode if pipe.in_time else None, _end_of(said)) from trouble


def reply(answer: Any, *, last: bool = True) -> None:
    """In the child: send an answer to the asker; after the last one nobody listens any more."""
    body = wire.dumps(answer).encode()
    _send(b"%d\n" % len(body) + body + (END if last else b""), close=last)


def end() -> None:
    """In the child: say that there are no more answers."""
    _send(END, close=True)


def _marks(sending: int) -> dict[str, str]:
    """Tell the child where to answer, and whom it ends with."""
    return {RESULT_ENV: str(sending), ASKER_ENV: str(os.getpid())}


def _send(data: bytes, *, close: bool) -> None:
    with os.fdopen(int(_GIVEN), "wb", closefd=close) as pipe:
        pipe.write(data)


class _Pipe:
    """What a child answers: documents, each with its length before it.

    The end is said: a process that an import left behind may hold the pipe open for ever. An asker whom nobody listens
    to any more has come to its deadline, too.
    """

    def __init__(self, descriptor: int, until: float) -> None:
        self._descriptor = descriptor
        self._until = until
        self._parent = os.getppid()
        self._held = b""
        self._closed = False
        self.whole = False  # the child said that this was all
        self.in_time = True

    @property
    def ended(self) -> bool:
        """Tell whether nothing more can come, in time."""
        return self.whole or self._closed

    def document(self) -> bytes | None:
        """Give the next document; None at the end, whichever it is."""
        while (found := self._next()) is None:
            if self.whole or not self._more():
                return None
        return found

    def _next(self) -> bytes | None:
        size, line, rest = self._held.partition(b"\n")
        if line and size == END.strip():
            self.whole = True
            return None
        if not line or not size.isdigit() or len(rest) < int(size):
            return None
        self._held = rest[int(size) :]
        return rest[: int(size)]

    def _more(self) -> bool:
        """Read on; False at the end of the pipe, or when the deadline came first."""
        with selectors.DefaultSelector() as selector:
            selector.register(self._descriptor, selectors.EVENT_READ)
            while (left := self._until - time.monotonic()) > 0:
                if selector.select(min(left, LOOK)):
                    part = os.read(self._descriptor, 1 << 16)
                    self._held += part
                    self._closed = not part
                    return bool(part)
                if _forsaken(self._parent):
                    break
        self.in_time = False
        return False


def _forsaken(parent: int) -> bool:
    """Tell whether the SSH session that started this process is gone: its parent, or who reads its stderr."""
    look = select.poll()
    look.register(2, 0)
    return os.getppid() != parent or any(mask & (select.POLLHUP | select.POLLERR) for _, mask in look.poll(0))


def _end_group(process: subprocess.Popen[bytes]) -> None:
    """End the child and everything that it started in its session's group; its shared memory has no other keeper."""
    left = shared_memory.of_session(process.pid) if process.poll() is None else set()
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    for name in left:
        with contextlib.suppress(OSError):
            os.unlink(name)  # noqa: PTH108 - one system call


def _end_of(said: Any) -> str:
    size = said.seek(0, os.SEEK_END)
    said.seek(max(0, size - KEPT_OUTPUT))
    return bytes(said.read()).decode("utf-8", "replace")
