"""What interpreters print at their end never is the root of a failure; logs as real processes leave them."""

from __future__ import annotations

import time

import pytest

from remote.failure_noise import closing, quotable
from remote.failures import classify, with_patterns
from remote.schema import Pattern

LIB = "/opt/env/lib/python3.12"
SAID = "INFO 11-30 11:02:03 [core.py:7] sample 41 of 900\n"
LEAKED = (
    f"{LIB}/multiprocessing/resource_tracker.py:254: UserWarning: resource_tracker: There appear to be 3 leaked"
    " semaphore objects to clean up at shutdown\n"
    "  warnings.warn('resource_tracker: There appear to be %d '\n"
)
LEAKED_3_12 = (
    f"{LIB}/multiprocessing/resource_tracker.py:279: UserWarning: resource_tracker: There appear to be 1 leaked"
    " shared_memory objects to clean up at shutdown: {'/psm_5f3a'}\n"
    "  warnings.warn(\n"
)
UNLINKED = (
    f"{LIB}/multiprocessing/resource_tracker.py:267: UserWarning: resource_tracker: '/psm_5f3a': [Errno 2] No such file"
    " or directory: '/psm_5f3a'\n"
    "  warnings.warn('resource_tracker: %r: %s' % (name, e))\n"
)
FORGOTTEN = (
    "Traceback (most recent call last):\n"
    f'  File "{LIB}/multiprocessing/resource_tracker.py", line 239, in main\n'
    "    cache[rtype].remove(name)\n"
    "KeyError: '/psm_5f3a'\n"
)
DESTRUCTOR = (
    "Exception ignored in: <function Connection.__del__ at 0x7f7d0a1b2c40>\n"
    "Traceback (most recent call last):\n"
    f'  File "{LIB}/multiprocessing/connection.py", line 133, in __del__\n'
    "    self._close()\n"
    "AttributeError: 'NoneType' object has no attribute 'close'\n"
)
FINALIZING = (
    "Exception ignored in: <function _WeakModuleTracker.__del__ at 0x7f7d0a1b2c40>\n"
    "Traceback (most recent call last):\n"
    f'  File "{LIB}/site-packages/torch/_dynamo/x.py", line 9, in __del__\n'
    "ImportError: sys.meta_path is None, Python is likely shutting down\n"
)
STDOUT = (
    "Exception ignored in: <_io.TextIOWrapper name='<stdout>' mode='w' encoding='utf-8'>\n"
    "BrokenPipeError: [Errno 32] Broken pipe\n"
)
AT_EXIT = (
    "Error in atexit._run_exitfuncs:\n"
    "Traceback (most recent call last):\n"
    f'  File "{LIB}/multiprocessing/util.py", line 303, in _run_finalizers\n'
    "    finalizer()\n"
    f'  File "{LIB}/shutil.py", line 684, in _rmtree_safe_fd\n'
    "    orig_st = os.stat(entry.name, dir_fd=topfd)\n"
    "              ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^\n"
    "FileNotFoundError: [Errno 2] No such file or directory: 'listener-x'\n"
    "\n"
    "During handling of the above exception, another exception occurred:\n"
    "\n"
    "Traceback (most recent call last):\n"
    f'  File "{LIB}/shutil.py", line 686, in _rmtree_safe_fd\n'
    "    onexc(os.lstat, fullname, err)\n"
    "EOFError\n"
)
GROUPS = (
    "[rank0]:[W1130 11:02:04.123 ProcessGroupNCCL.cpp:1479] Warning: WARNING: destroy_process_group() was not called"
    " before program exit, which can leak resources. (function ~ProcessGroupNCCL)\n"
)
FUTURES = "RuntimeError: cannot schedule new futures after interpreter shutdown\n"
PARENT = (
    "(Worker pid=2112) INFO 11-30 11:02:04 [multiproc_executor.py:732] Parent process exited, terminating worker\n"
    "(Worker pid=2112) INFO 11-30 11:02:04 [multiproc_executor.py:785] WorkerProc shutting down.\n"
)
TASK = "Task was destroyed but it is pending!\n"
NANOBIND = 'nanobind: leaked 2 instances!\n - leaked instance 0x55d0 of type "x.Y"\n'
ENDS = {
    "leaked": LEAKED, "leaked as 3.12 says it": LEAKED_3_12, "unlinked by others": UNLINKED, "forgotten": FORGOTTEN,
    "a destructor": DESTRUCTOR, "at finalizing": FINALIZING, "standard output": STDOUT, "exit functions": AT_EXIT,
    "process groups": GROUPS, "futures": FUTURES, "parent": PARENT, "a task": TASK, "nanobind": NANOBIND,
}  # fmt: skip


@pytest.mark.parametrize("end", [*ENDS.values(), "".join(ENDS.values())], ids=[*ENDS, "all of them"])
def test_of_a_killed_attempt_what_it_said_before_is_quoted(end: str) -> None:
    failure = classify(SAID + end, 137)
    assert (failure.kind, failure.cause, failure.root_line) == ("unknown", "sigkill", SAID.strip())


@pytest.mark.parametrize("end", [*ENDS.values(), "".join(ENDS.values())], ids=[*ENDS, "all of them"])
def test_where_nothing_else_was_said_nothing_is_quoted(end: str) -> None:
    failure = classify(end, 137)
    assert (failure.kind, failure.cause) == ("unknown", "sigkill")
    assert failure.root_line is None


@pytest.mark.parametrize("end", ENDS.values(), ids=ENDS)
@pytest.mark.parametrize(
    ("root", "cause"),
    [("ImportError: cannot import name 'x' from 'vllm'", "import"), ("torch.OutOfMemoryError: CUDA out of memory.",
     "gpu-out-of-memory"), ("KeyError: 'layers'", "config"), ("EOFError", "peer-gone")],
)  # fmt: skip
def test_the_root_is_found_before_and_behind_it(end: str, root: str, cause: str) -> None:
    told = f'Traceback (most recent call last):\n  File "job.py", line 1, in main\n    go()\n{root}\n'
    for log in (told + end, end + told):
        failure = classify(log, 1)
        assert (failure.cause, failure.root_line) == (cause, root)


def test_each_process_is_followed_for_itself() -> None:
    def spoken(pid: int, text: str) -> list[str]:
        return [f"(Worker pid={pid}) {line}" for line in text.splitlines()]

    root = 'Traceback (most recent call last):\n  File "job.py", line 1, in main\n    go()\nImportError: no x\n'
    both = [line for pair in zip(spoken(7, DESTRUCTOR)[1:], spoken(8, root), strict=True) for line in pair]
    lines = [spoken(7, DESTRUCTOR)[0], *both]
    assert [line for line, closed in zip(lines, closing(lines), strict=True) if not closed] == spoken(8, root)
    assert classify("\n".join(lines), 1).root_line == "(Worker pid=8) ImportError: no x"


def test_loggers_words_before_each_line_hide_nothing() -> None:
    lines = [f"(EngineCore_DP0 pid=81) ERROR 11-30 11:02:03 [core.py:94] {line}" for line in DESTRUCTOR.splitlines()]
    assert classify("\n".join([SAID, *lines]), 139).root_line == SAID.strip()


def test_a_full_disk_that_a_destructor_meets_is_a_full_disk() -> None:
    log = "Exception ignored in: <_io.BufferedWriter name='/out/x'>\nOSError: [Errno 28] No space left on device\n"
    assert classify(log, 1).cause == "disk-full"


def test_the_jobs_own_patterns_count_there_too() -> None:
    own = Pattern(match="has no attribute 'close'", kind="transient", cause="gateway", advice="It wakes up.")
    assert classify(DESTRUCTOR, 1, rows=with_patterns((own,))).cause == "gateway"


def test_the_tracker_in_the_jobs_own_process_is_no_noise() -> None:
    log = (
        "Traceback (most recent call last):\n"
        f'  File "{LIB}/multiprocessing/resource_tracker.py", line 121, in ensure_running\n'
        "    r, w = os.pipe()\n"
        "OSError: [Errno 24] Too many open files\n"
    )
    assert classify(SAID + log, 1).root_line == "OSError: [Errno 24] Too many open files"


# Crashes whose stacks follow their words.
SEGMENTATION = (
    "Fatal Python error: Segmentation fault\n\nCurrent thread 0x00007f (most recent call first):\n"
    '  File "/opt/x.py", line 3 in run\n  File "/opt/y.py", line 9 in main\n\n'
    "Extension modules: numpy.core._multiarray_umath, torch._C (total: 2)\n"
)
TERMINATED = (
    "terminate called after throwing an instance of 'c10::Error'\n  what():  CUDA driver error: unknown error\n"
    "Exception raised from x at y.cpp:9 (most recent call first):\n"
    "frame #0: c10::Error::Error + 0x98 (0x7f in z.so)\nframe #1: <unknown function> + 0x11 (0x7f in z.so)\n"
)


@pytest.mark.parametrize(
    ("log", "quoted"),
    [
        (SEGMENTATION, "Fatal Python error: Segmentation fault"),
        (TERMINATED, "Exception raised from x at y.cpp:9 (most recent call first):"),
        # A warning is quoted where nothing else was said, and its source line never is.
        (f"{SAID}/opt/x.py:9: DeprecationWarning: y is going away\n  y()\n", SAID.strip()),
        ("/opt/x.py:9: DeprecationWarning: y is going away\n  y()\n",
         "/opt/x.py:9: DeprecationWarning: y is going away"),
        ("WARNING 11-30 11:02:03 [x.py:1] it is warm in here\n", "WARNING 11-30 11:02:03 [x.py:1] it is warm in here"),
        # An interpreter that cannot end: this is what happened.
        ("all is done\nFatal Python error: _enter_buffered_busy: could not acquire lock at interpreter shutdown\n",
         "Fatal Python error: _enter_buffered_busy: could not acquire lock at interpreter shutdown"),
        ("indented words\n   40% of it\n", "40% of it"),
    ],
)  # fmt: skip
def test_of_an_unknown_failure_the_last_words_that_tell_something_are_quoted(log: str, quoted: str) -> None:
    assert classify(log, 134).root_line == quoted


# What torch and NCCL say, whole: the failure and the advice are one line.
OUT_OF_MEMORY = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 178.36 GiB"
    " of which 1.06 GiB is free. Process 4711 has 177.28 GiB memory in use. Of the allocated memory 172.00 GiB is"
    " allocated by PyTorch, and 2.00 GiB is reserved by PyTorch but unallocated. If reserved but unallocated memory is"
    " large try setting PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid fragmentation."
)
NCCL = "torch.distributed.DistBackendError: NCCL error in: x.cpp:3384, {}, NCCL version 2.27.3"


@pytest.mark.parametrize(
    ("line", "cause"),
    [
        (OUT_OF_MEMORY, "gpu-out-of-memory"),
        (OUT_OF_MEMORY.replace("CUDA_ALLOC", "ALLOC"), "gpu-out-of-memory"),
        (NCCL.format("invalid usage (run with NCCL_DEBUG=WARN for details)"), "nccl-usage"),
        (NCCL.format("unhandled system error (run with NCCL_DEBUG=INFO for details)"), "nccl-cascade"),
    ],
)
def test_advice_in_the_same_line_does_not_hide_the_failure_before_it(line: str, cause: str) -> None:
    failure = classify(f"{SAID}{line}\n", 1)
    assert (failure.cause, failure.root_line) == (cause, line)


@pytest.mark.parametrize(
    "line",
    ["Traceback (most recent call last):\n", '  File "x", line 1, in y\n', "Exception ignored in: x\n", "(pid=1) x\n",
     "(" * 500 + "\n", "During handling of the above exception, another exception occurred:\n", DESTRUCTOR],
)  # fmt: skip
def test_a_log_of_megabytes_takes_no_time_to_speak_of(line: str) -> None:
    lines = (line * (2_000_000 // len(line))).split("\n")
    began = time.process_time()
    quotable(lines, closing(lines))
    assert time.process_time() - began < 20
