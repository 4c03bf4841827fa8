"""The same faults, once, with the real vLLM and speculators: workers and supervisor killed, poison, a stop."""

from __future__ import annotations

import dataclasses
import os
import signal
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from local import extract
from local import runs as user_runs
from local.follow import follow
from local.links.here import HereLink
from remote.host import processes
from remote.run import hand, runs, suspects
from remote.schema import Retry, Samples
from tests.running import Lab, until
from tests.stack.conftest import stack  # noqa: F401 - the fixture

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from remote.paths import Run
    from remote.schema import Exit, Job
    from tests.stack.conftest import Stack

pytestmark = [pytest.mark.stack, pytest.mark.xdist_group("stack")]
PATIENCE = 240.0
TOTAL = 48
LONGEST = 47  # the last sample: it takes long enough to be met while it is in hand


def standing(output: Path) -> dict[str, int]:
    """Give the samples that stand, with their inodes."""
    return {path.name: path.stat().st_ino for path in output.glob("data_*.pt")}


def workers(run: Run) -> list[processes.Process]:
    """Give what the attempt has started: vLLM's workers."""
    state = runs.look(run).state
    assert state is not None
    return [one for one in processes.started_by(state.pid) if one.parent != state.pid]


def extracted(lab: Lab, bundle: str, job: Job, strike: Callable[[Run], None] | None) -> tuple[Run, Exit | None]:
    """Extract and follow, and strike meanwhile."""
    answer = extract.start(lab.host, job, bundle=bundle, fingerprint="f", secrets={})
    run = lab.run(answer.run or "")
    log = bytearray()
    events: list[dict[str, Any]] = []
    striking = threading.Thread(target=strike or (lambda _: None), args=(run,))
    striking.start()
    ended = follow(lab.host, bundle=bundle, workdir=lab.workdir, run=run.id, on_log=log.extend, on_event=events.append)
    striking.join()
    host = Path(run.log).read_bytes()
    assert host == log if ended is not None else host.startswith(log)
    assert [event["n"] for event in events] == list(range(1, len(events) + 1))
    return run, ended


@pytest.fixture
def lab(stack: Stack, tmp_path: Path) -> Iterator[Lab]:  # noqa: F811
    """Give a workdir with the stack's own bundle in it."""
    made = Lab(tmp_path, python=stack.python, link=HereLink(tmp_path))
    (tmp_path / "work" / "bundles" / stack.bundle.root.name).symlink_to(stack.bundle.root)
    yield made
    left = made.clean_up()
    assert not left


def job_of(stack: Stack, lab: Lab, **changes: Any) -> Job:  # noqa: F811
    own = {"workdir": lab.workdir, "output": str(lab.output), "retry": Retry(transient=3, backoff=0.1)}
    return dataclasses.replace(stack.job, **{**own, **changes})


def test_a_sample_of_which_vllms_worker_dies_is_given_up_and_all_others_are_done(
    stack: Stack, lab: Lab  # noqa: F811
) -> None:  # fmt: skip
    """The sample is as harmless as any: we do to the worker what a kernel that crashes on it would."""
    crashes = []

    def crash_whenever_it_is_in_hand(run: Run) -> None:
        while runs.look(run).exit is None:
            if LONGEST in (held := hand.held(run)):
                crashes.append(held)
                processes.send(workers(run)[-1], signal.SIGSEGV)
                until(lambda held=held: hand.held(run) != held or runs.look(run).exit is not None)
            time.sleep(0.005)

    run, ended = extracted(lab, stack.bundle.root.name, job_of(stack, lab), crash_whenever_it_is_in_hand)
    assert ended is not None
    assert (ended.phase, ended.code, ended.cause) == ("failed", 10, "samples-failed")
    assert ended.samples == Samples(total=TOTAL, done=TOTAL - 1, failed=1)
    assert list(suspects.read(run).failed) == [LONGEST]
    assert [LONGEST in held for held in crashes] == [True, True]
    assert (len(crashes[0]), crashes[1]) == (4, (LONGEST,))
    assert standing(lab.output).keys() == {f"data_{index}.pt" for index in range(TOTAL) if index != LONGEST}
    lab.ended(run)
    assert processes.of_run(run) == []


def test_a_stop_lets_vllm_finish_the_batch_in_hand(stack: Stack, lab: Lab) -> None:  # noqa: F811
    held: list[int] = []

    def stop_with_the_last_batch_in_hand(run: Run) -> None:
        _until_more(lab.output, 8)
        until(lambda: LONGEST in hand.held(run))
        held.extend(hand.held(run))
        assert lab.stop(run.id, grace=120.0).outcome == "stopped"

    run, ended = extracted(lab, stack.bundle.root.name, job_of(stack, lab), stop_with_the_last_batch_in_hand)
    assert ended is not None
    assert (ended.phase, ended.code, ended.left_running) == ("stopped", 143, ())
    assert len(held) == 4
    assert standing(lab.output).keys() >= {f"data_{index}.pt" for index in held}
    answer = user_runs.verify(lab.host, job_of(stack, lab), bundle=stack.bundle.root.name)
    assert (answer.valid, answer.damaged) == (len(standing(lab.output)), 0)
    assert not list(lab.output.glob(".data_*"))
    lab.ended(run)
    assert processes.of_run(run) == []


def test_the_real_stack_lives_through_what_the_pretended_one_does(stack: Stack, lab: Lab) -> None:  # noqa: F811
    job = job_of(stack, lab, batch_size=2)

    def kill_a_worker(run: Run) -> None:
        _until_more(lab.output, 3)
        processes.send(workers(run)[-1], signal.SIGKILL)

    def kill_both_owners(run: Run) -> None:
        kill_a_worker(run)
        _until_more(lab.output, len(standing(lab.output)) + 4)
        os.kill(lab.state(run).pid, signal.SIGKILL)

    lost, ended = extracted(lab, stack.bundle.root.name, job, kill_both_owners)
    assert ended is None
    before = standing(lab.output)
    assert len(before) >= 7
    run, ended = extracted(lab, stack.bundle.root.name, job, None)
    assert ended is not None
    assert (ended.phase, ended.code, ended.left_running) == ("done", 0, ())
    assert {name: inode for name, inode in standing(lab.output).items() if name in before} == before
    answer = user_runs.verify(lab.host, job, bundle=stack.bundle.root.name)
    assert (answer.valid, answer.damaged, answer.missing, answer.extra) == (answer.total, 0, 0, 0)
    assert answer.total == 48
    assert not list(lab.output.glob(".data_*"))
    lab.ended(run)
    assert [processes.of_run(one) for one in (lost, run)] == [[], []]


def _until_more(output: Path, count: int) -> None:
    """Wait until so many samples stand: loading takes its time."""
    for _ in range(int(PATIENCE / 30)):
        try:
            until(lambda: len(standing(output)) >= count)
        except AssertionError:
            continue
        return
    raise AssertionError(f"no {count} samples within {PATIENCE:g} s")
