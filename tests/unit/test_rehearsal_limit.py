"""The limit on a rehearsal's time, and reading back what was printed."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from remote.rehearsal.limit import limit

if TYPE_CHECKING:
    from remote.rehearsal import blame

ROOT = Path(__file__).parents[2]


def test_when_the_time_is_up_it_says_where_the_main_thread_stands() -> None:
    stands: list[blame.Frame] = []
    seen = threading.Event()

    def time_is_up(stack: list[blame.Frame]) -> None:
        stands.extend(stack)
        seen.set()

    with limit(0.01, time_is_up):
        assert seen.wait(10)
    own = [frame for frame in stands if frame.file == __file__]
    assert own[-1].text is not None
    assert "assert seen.wait(10)" in own[-1].text


def test_in_time_nothing_is_said_and_no_thread_is_left() -> None:
    said: list[object] = []
    before = threading.active_count()
    with limit(60, said.append):
        assert threading.active_count() == before + 1
    assert (said, threading.active_count()) == ([], before)


def test_what_children_print_is_read_back_from_where_it_began(tmp_path: Path) -> None:
    script = (
        "import os, subprocess, sys\n"
        "from remote.rehearsal.said import Said\n"
        "os.write(2, b'before\\n')\n"
        "said = Said()\n"
        "subprocess.run([sys.executable, '-c', 'import os; os.write(2, \"h\\u00e9\\\\n\".encode())'], check=True)\n"
        "os.write(2, b'\\xff after\\n')\n"
        "print(ascii(said.text()))\n"
    )
    with (tmp_path / "said").open("w+b") as file:
        done = subprocess.run(
            [sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=file, cwd=ROOT, check=True, text=True
        )
    assert done.stdout.strip() == ascii("hé\n\ufffd after\n")


def test_a_pipe_cannot_be_read_back_and_says_nothing() -> None:
    script = "import os; from remote.rehearsal.said import Said; s = Said(); os.write(2, b'x'); print(repr(s.text()))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, cwd=ROOT, check=True, text=True)
    assert done.stdout.strip() == "''"


def test_mapped_shared_memory_is_unlinked_by_who_cannot_end_well() -> None:
    script = (
        "import os, sys\n"
        "from multiprocessing import shared_memory, resource_tracker\n"
        "from remote.rehearsal.limit import forget_shared_memory\n"
        "kept = shared_memory.SharedMemory(create=True, size=4096)\n"
        "resource_tracker.unregister('/' + kept.name, 'shared_memory')\n"
        "there = os.path.exists('/dev/shm/' + kept.name)\n"
        "forget_shared_memory()\n"
        "print(there, os.path.exists('/dev/shm/' + kept.name), flush=True)\n"
        "os._exit(0)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, cwd=ROOT, check=True, text=True)
    assert done.stdout.strip() == "True False"
    assert os.path.isdir("/dev/shm")  # noqa: PTH112 - else the above shows nothing
