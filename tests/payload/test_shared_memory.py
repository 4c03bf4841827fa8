"""What killed processes leave in /dev/shm goes with their run; what is anybody else's stays."""

from __future__ import annotations

import json
import mmap
import os
import secrets
import signal
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from remote.host import processes
from remote.host import shared_memory as segments
from tests.running import until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from remote.paths import Run
    from tests.running import Lab

# Makes a segment as vLLM's message queues do, says its name, and is killed before it can remove it.
MAKER = """
import os, signal, sys, time
from multiprocessing import resource_tracker, shared_memory
mine = shared_memory.SharedMemory(create=True, size=4096)
resource_tracker.unregister(mine._name, "shared_memory")
if len(sys.argv) > 2:
    theirs = shared_memory.SharedMemory(name=sys.argv[2])
    resource_tracker.unregister(theirs._name, "shared_memory")
print("made", mine.name, flush=True)
while not os.path.exists(sys.argv[1]):
    time.sleep(0.05)
os.kill(os.getpid(), signal.SIGKILL)
"""


class Mapped:
    """A segment that this process has made and mapped, without the library that would watch over it."""

    def __init__(self) -> None:
        self.name = f"psm_{secrets.token_hex(4)}"
        self.path = Path(segments.FOLDER) / self.name
        with self.path.open("wb+") as file:
            file.truncate(4096)
            self.map = mmap.mmap(file.fileno(), 4096)


@pytest.fixture
def made() -> Iterator[Mapped]:
    """Give a segment of somebody else that was there before."""
    made = Mapped()
    yield made
    made.map.close()
    made.path.unlink(missing_ok=True)


@pytest.fixture
def theirs(made: Mapped) -> str:
    return made.name


def start(lab: Lab, *words: str) -> tuple[Run, str]:
    """Start a run that makes a segment; gives it once the supervisor has taken note."""
    (lab.root / "maker.py").write_text(MAKER)
    gate = lab.root / "go"
    command = (lab.python, str(lab.root / "maker.py"), str(gate), *words)
    run = lab.start("", command=command)
    name = lab.logged(run, "made").split("made ")[1].split()[0]
    until(lambda: name in Path(run.shared).read_text(), "the note of the segment")
    return run, name


def there(name: str) -> bool:
    return (Path(segments.FOLDER) / name).exists()


def test_the_segments_of_a_killed_attempt_go_and_nobody_elses(lab: Lab, theirs: str) -> None:
    run, name = start(lab, theirs)
    assert there(name)
    (lab.root / "go").touch()
    lab.ended(run)
    assert not there(name)
    assert there(theirs)
    swept = [json.loads(line) for line in Path(run.events).read_text().splitlines()]
    assert {tuple(event["shared"]) for event in swept if event["event"] == "swept"} >= {(name,)}


@pytest.mark.parametrize("by", ["stop", "launch"])
def test_who_ends_a_lost_run_removes_what_it_has_left(lab: Lab, theirs: str, by: str) -> None:
    run, name = start(lab, theirs)
    lab.kill_supervisor(run)
    until(lambda: not processes.of_run(run), "the end of the attempt")  # it gets SIGTERM
    assert there(name)
    if by == "stop":
        assert lab.stop(run.id).outcome == "stopped"
    else:
        lab.ended(lab.start("true"))
    assert not there(name)
    assert there(theirs)


def test_what_somebody_still_maps_is_not_removed(made: Mapped) -> None:
    (segment,) = (one for one in segments.mapped([os.getpid()]) if one.name == made.name)
    assert segments.remove({segment}) == ()
    assert there(made.name)
    made.map.close()
    assert segments.remove({segment._replace(inode=segment.inode + 1)}) == ()  # the name was given out again
    assert there(made.name)
    assert segments.remove({segment}) == (made.name,)
    assert not there(made.name)


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b'{"boot": "another", "before": [], "made": [["psm_x", 1]]}'])
def test_an_account_that_cannot_be_read_or_is_of_another_boot_counts_for_nothing(lab: Lab, data: bytes) -> None:
    run = lab.start("true")
    lab.ended(run)
    Path(run.shared).write_bytes(data)
    assert segments.noted(run) is None
    assert segments.sweep(run) == ()


@pytest.mark.parametrize("name", ["../etc/passwd", "mine", "pulse-shm-1", "psm_x/../../y", "psm_x (deleted)"])
def test_names_that_no_job_makes_are_never_touched(name: str) -> None:
    assert segments.OF_JOBS.fullmatch(name) is None


def test_a_segment_that_was_there_before_is_never_the_runs(theirs: str) -> None:
    before = frozenset(segments.present())
    mapped = segments.mapped([os.getpid()])
    assert theirs in {segment.name for segment in mapped}
    assert theirs not in {one.name for one in segments.Account(before, frozenset()).with_mapped([os.getpid()]).made}


def test_the_kill_that_the_test_relies_on_is_one(lab: Lab) -> None:
    run, _ = start(lab)
    (lab.root / "go").touch()
    assert lab.ended(run).code == 128 + signal.SIGKILL
