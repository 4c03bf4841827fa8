"""A program of the host that may be long in answering, or never do: one of it at a time, and nobody waits for it.

Its answer goes to a file. The lock on the question is inherited by the program, and let go of by the kernel when the
last process of it is gone: a program that is stuck in a driver, where no signal reaches it, holds it as long as it is
stuck, whoever asked. Everybody who asks for the same thing in the same folder shares the question and the answer.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

LIMIT = 20  # seconds after which a program that has not answered is ended, where that can be done
LONGEST = 64 * 1024  # bytes of an answer that are read
LOOK = 0.02  # seconds between two looks for an answer that is waited for


@dataclass(frozen=True, kw_only=True, slots=True)
class Heard:
    """The last answer: None where there is none, `at` when it came; `pending` since when a newer one is waited for."""

    text: str | None = None
    at: float = 0.0
    pending: float | None = None
    error: str | None = None


class Question:
    """One thing to ask of a host, by a program."""

    def __init__(self, folder: str | os.PathLike[str], name: str, words: Sequence[str], *, limit: int = LIMIT) -> None:
        self._folder = Path(folder)
        self._lock = self._folder / f"{name}.lock"
        self._coming = self._folder / f"{name}.coming"
        self._answer = self._folder / f"{name}.answer"
        self._words = list(words)
        self._limit = limit
        self._error: str | None = None

    def __repr__(self) -> str:
        return f"<question {self._answer.stem}: {' '.join(self._words)[:60]}>"

    def ask(self, *, fresh: float = 0.0) -> int | None:
        """Start the program; gives its pid, None while one is under way or an answer is younger than `fresh`."""
        self._error = None
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            with self._taken() as lock:
                if lock is None or (fresh and abs(time.time() - self._settled()) < fresh):  # a clock may go back
                    return None
                return self._start(lock)
        except FileNotFoundError:
            self._error = f"not installed: there is no {self._words[0]} to run"
        except OSError as error:
            self._error = f"failed: {self._words[0]} cannot be asked ({error.strerror})"
        return None

    def idle(self) -> bool:
        """Tell whether no program is under way; what it answered is in place then."""
        try:
            with self._taken() as lock:
                if lock is not None:
                    self._settled()
                return lock is not None
        except OSError:
            return True

    def wait(self, until: float) -> None:
        """Wait for the answer, at most until a moment of the monotonic clock."""
        while not self.idle() and time.monotonic() < until:
            time.sleep(LOOK)

    def heard(self) -> Heard:
        """Give what was answered last."""
        pending = None if self.idle() else self._asked_at()
        try:
            with self._answer.open("rb") as file:
                text, at = file.read(LONGEST).decode("utf-8", "replace"), os.fstat(file.fileno()).st_mtime
        except OSError:
            return Heard(pending=pending, error=self._error)
        if self._error is not None:
            return Heard(pending=pending, error=self._error)
        return Heard(text=text, at=at, pending=pending)

    def _start(self, lock: int) -> int:
        """Start the program with the lock in its hands."""

        def before_exec() -> None:
            signal.pthread_sigmask(signal.SIG_SETMASK, ())
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(self._limit)  # outlives exec: nobody has to be there to end it

        os.utime(lock)
        coming = os.open(self._coming, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            process = subprocess.Popen(
                self._words,
                stdin=subprocess.DEVNULL,
                stdout=coming,
                stderr=coming,
                cwd="/",
                start_new_session=True,
                pass_fds=(lock,),
                preexec_fn=before_exec,  # noqa: PLW1509 - who asks has one thread
            )
        except OSError:
            self._coming.unlink()
            raise
        finally:
            os.close(coming)
        process.returncode = 0  # nobody waits for it: no warning, and no second wait where another reaps it
        return process.pid

    def _settled(self) -> float:
        """Put an answer that is whole in place; gives when the last one came. Only for who has the lock."""
        with contextlib.suppress(FileNotFoundError):
            self._coming.replace(self._answer)
        with contextlib.suppress(FileNotFoundError):
            found = self._answer.stat()
            return found.st_mtime if found.st_size else 0.0  # who was ended before it said anything has not answered
        return 0.0

    def _asked_at(self) -> float | None:
        with contextlib.suppress(OSError):
            return self._lock.stat().st_mtime
        return None

    @contextlib.contextmanager
    def _taken(self) -> Iterator[int | None]:
        """Give the lock's descriptor, None when a program has it."""
        descriptor = os.open(self._lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                yield None
            else:
                yield descriptor
        finally:
            os.close(descriptor)
