"""What the chaos has found, each by itself: mended, and held here."""

from __future__ import annotations

import random
import socket
import sys
from typing import TYPE_CHECKING

import paramiko
import pytest

from local import extract as extracting
from local import runs as user_runs
from local.follow import follow
from local.links import transport as links_transport
from remote.failures import classify
from tests.chaos import faults, pretend
from tests.chaos.plan import Plan
from tests.chaos.world import World
from tests.running import Lab

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.chaos.pretend import Pretence


@pytest.fixture
def world(tmp_path: Path, pretence: Pretence) -> Iterator[World]:
    """Give a pretended host on which nothing has happened yet."""
    (tmp_path / "disk").mkdir()
    made = World(tmp_path, pretence, Plan(7))
    yield made
    left = made.lab.clean_up()
    assert not left, f"left running: {left}"


def extract(world: World) -> None:
    answer = world.lab.launch(world.job)
    assert (answer.outcome, answer.message) == ("started", "")
    ended = follow(
        world.lab.host, bundle=world.lab.bundle, workdir=world.lab.workdir, run=answer.run or "",
        on_log=lambda _: None, on_event=lambda _: None,
    )  # fmt: skip
    assert ended is not None
    assert ended.phase == "done"
    world.lab.ended(world.lab.run(answer.run or ""))


def test_a_supervisor_that_is_killed_at_its_start_is_told_so(
    tmp_path: Path, pretence: Pretence, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bin").mkdir()
    killed = tmp_path / "bin" / "nohup"
    killed.write_text("#!/bin/sh\nkill -9 $$\n")
    killed.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=":")
    lab = Lab(tmp_path / "host", python=str(pretence.python))
    answer = lab.launch(lab.job("true"))
    assert answer.outcome == "refused"
    assert "the supervisor was ended by signal 9 before it could start the job" in answer.message
    assert lab.status() == ()


@pytest.mark.parametrize("how", ["exit 137", "kill -9 $$"])
def test_a_launch_that_is_killed_on_the_host_is_asked_again(tmp_path: Path, how: str) -> None:
    python = tmp_path / "python"
    once = f"[ -e {tmp_path}/once ] || {{ touch {tmp_path}/once; {how}; }}"
    python.write_text(f'#!/bin/sh\ncase "$*" in *" launch") {once};; esac\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    lab = Lab(tmp_path / "host", python=str(python))
    answer = extracting.start(lab.host, lab.job("true"), bundle=lab.bundle, fingerprint="f", secrets={})
    assert answer.outcome == "started"
    assert lab.ended(lab.run(answer.run or "")).phase == "done"
    assert (tmp_path / "once").exists()
    assert not lab.clean_up()


def test_a_channel_that_is_being_opened_while_the_connection_dies_makes_no_traceback() -> None:
    near, far = socket.socketpair()
    transport = links_transport.Transport(near)
    channel = paramiko.Channel(0)
    transport._channels.put(0, channel)  # Paramiko lists it first and tells it whose it is then
    far.close()
    with pytest.raises((paramiko.SSHException, EOFError)):
        transport.start_client(timeout=10)
    transport.join(10)
    assert not transport.is_alive()
    assert not transport.is_active()
    assert channel.closed


@pytest.mark.parametrize("damage", ["flip", "zero"])
def test_damage_that_keeps_the_size_is_found_by_verify_and_mended_by_extract(world: World, damage: str) -> None:
    extract(world)
    dice = random.Random(3)  # noqa: S311 - replayable
    while not faults.SAME_SIZE[damage](world, dice):
        pass
    assert user_runs.verify(world.lab.host, world.job, bundle=world.lab.bundle).damaged == 1
    extract(world)
    assert user_runs.verify(world.lab.host, world.job, bundle=world.lab.bundle).damaged == 0
    assert pretend.complaints(world.output, world.samples) == []


WORKER_KILLED = """
INFO 11-30 18:16:40 [core.py:1] a prompt of 3 tokens
ERROR 11-30 18:16:41 [multiproc_executor.py:247] Worker proc VllmWorker-0 died unexpectedly, shutting down executor.
Traceback (most recent call last):
  File "executor.py", line 9, in collect
    raise RuntimeError("cancelled")
RuntimeError: cancelled
  warnings.warn('resource_tracker: There appear to be %d '
"""


@pytest.mark.parametrize(("memory", "cause"), [(False, "engine-died"), (True, "host-out-of-memory")])
def test_a_killed_worker_of_vllm_is_known(memory: bool, cause: str) -> None:  # noqa: FBT001
    failure = classify(WORKER_KILLED, 1, progressed=True, out_of_memory=memory)
    assert failure.cause == cause
    assert failure.root_line is not None
    assert "died unexpectedly" in failure.root_line
