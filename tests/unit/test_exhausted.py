"""An exception's words, held against the limits of the session."""

from __future__ import annotations

import os
import resource
import subprocess
import sys

import pytest

from remote.host import exhausted

SET = {resource.RLIMIT_AS: 4 << 30, resource.RLIMIT_NOFILE: 64, resource.RLIMIT_NPROC: 20}


@pytest.fixture
def limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda number: (SET[number], SET[number]))
    monkeypatch.setattr(os, "geteuid", lambda: 1000)


@pytest.mark.usefixtures("limited")
@pytest.mark.parametrize(
    ("words", "flag"),
    [
        ("ImportError: libtorch_cuda.so: failed to map segment from shared object", "4.0 GiB of memory (`ulimit -v`)"),
        ("MemoryError: ", "`ulimit -v`"),
        ("terminate called after throwing an instance of 'std::bad_alloc'", "`ulimit -v`"),
        ("OSError: [Errno 12] Cannot allocate memory", "`ulimit -v`"),
        ("OSError: [Errno 24] Too many open files: '/x'", "64 files (`ulimit -n`)"),
        ("RuntimeError: can't start new thread", "20 processes and threads (`ulimit -u`)"),
        ("BlockingIOError: [Errno 11] Resource temporarily unavailable", "`ulimit -u`"),
        ("OpenBLAS blas_thread_init: pthread_create failed for thread 1 of 2", "`ulimit -u`"),
        ("zmq.error.Again: Resource temporarily unavailable", ""),
        ("ValueError: memory_fraction must be below 1", ""),
        ("", ""),
    ],
)
def test_the_limit_that_is_spoken_of_is_named_with_its_number(words: str, flag: str) -> None:
    said = exhausted.told(words)
    assert flag in said
    assert bool(said) == bool(flag)


@pytest.mark.usefixtures("limited")
def test_root_may_have_as_many_processes_as_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert exhausted.told("can't start new thread") == ""


def test_what_a_process_under_a_limit_says_of_itself() -> None:
    program = """
import mmap, resource
from remote.host import exhausted
resource.setrlimit(resource.RLIMIT_AS, (1 << 30, resource.RLIM_INFINITY))
try:
    mmap.mmap(-1, 2 << 30)
except OSError as error:
    print(exhausted.told(str(error)))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert "may map 1.0 GiB of memory (`ulimit -v`): raise `as`" in done.stdout


def test_memory_that_is_wanting_without_a_limit_is_blamed_on_none() -> None:
    soft, _ = resource.getrlimit(resource.RLIMIT_AS)
    if soft != resource.RLIM_INFINITY:
        pytest.skip("this session has such a limit itself")
    assert exhausted.told("MemoryError") == ""
