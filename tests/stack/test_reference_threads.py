"""The reference computes with one thread, and the engine's own thread does not notice: vLLM asks it for its number."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.stack.conftest import stack_python

pytestmark = pytest.mark.stack
ROOT = Path(__file__).parent.parent.parent
SCRIPT = """
import json, threading, torch
from remote.rehearsal import threads

usual, looked, entered = threads.taken(), threading.Event(), threading.Event()
seen = {"usual": usual}

def compute():
    with threads.computing_with(1, usual):
        seen["here"] = torch.get_num_threads()
        entered.set()
        looked.wait(60)
    seen["here, later"] = torch.get_num_threads()

def come_later():
    seen["another, later"] = torch.get_num_threads()

thread = threading.Thread(target=compute)
thread.start()
entered.wait(60)
seen["the engine's"] = torch.get_num_threads()
looked.set()
thread.join()
other = threading.Thread(target=come_later)
other.start()
other.join()
print(json.dumps(seen))
"""


def test_only_the_references_thread_computes_alone() -> None:
    environment = {"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"}
    done = subprocess.run(
        [stack_python(), "-B", "-c", SCRIPT], env=environment, capture_output=True, check=False, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)
    usual = seen.pop("usual")  # as many as there are cores
    assert seen == {"here": 1, "the engine's": usual, "here, later": usual, "another, later": usual}
