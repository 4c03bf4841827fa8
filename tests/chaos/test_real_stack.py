"""The same faults, once, with the real vLLM and speculators: a worker is killed, then the supervisor."""

from __future__ import annotations

import dataclasses
import os
import signal
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from local import extract
from local import runs as user_runs
from local.follow import follow
from local.links.here import HereLink
from remote import processes, runs
from remote.schema import Retry
from tests.running import Lab, until
from tests.stack.conftest import stack  # noqa: F401 - the fixture

if TYPE_CHECKING:
    from collections.abc import Callable

    from remote.paths import Run
    from remote.schema import Exit, Job
    from tests.stack.conftest import Stack

pytestmark = [pytest.mark.stack, pytest.mark.xdist_group("stack")]
PATIENCE = 240.0


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


def test_the_real_stack_lives_through_what_the_pretended_one_does(stack: Stack, tmp_path: Path) -> None:  # noqa: F811
    lab = Lab(tmp_path, python=stack.python, link=HereLink(tmp_path))
    (tmp_path / "work" / "bundles" / stack.bundle.root.name).symlink_to(stack.bundle.root)
    retry = Retry(transient=3, backoff=0.1)
    job = dataclasses.replace(stack.job, workdir=lab.workdir, output=str(lab.output), retry=retry, batch_size=2)

    def kill_a_worker(run: Run) -> None:
        _until_more(lab.output, 3)
        processes.send(workers(run)[-1], signal.SIGKILL)

    def kill_both_owners(run: Run) -> None:
        kill_a_worker(run)
        _until_more(lab.output, len(standing(lab.output)) + 4)
        os.kill(lab.state(run).pid, signal.SIGKILL)

    try:
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
    finally:
        left = lab.clean_up()
    assert not left


def _until_more(output: Path, count: int) -> None:
    """Wait until so many samples stand: loading takes its time."""
    for _ in range(int(PATIENCE / 30)):
        try:
            until(lambda: len(standing(output)) >= count)
        except AssertionError:
            continue
        return
    raise AssertionError(f"no {count} samples within {PATIENCE:g} s")
