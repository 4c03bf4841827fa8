"""The faults of the schedules, once each, with the real vLLM and speculators; what must hold is the same."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import random
import shutil
import signal
import threading
import time
import traceback
from typing import TYPE_CHECKING

import pytest

from remote.run import runs
from tests.chaos import faults
from tests.chaos.links import RoughProxy, SshFaults
from tests.chaos.living import mounted
from tests.chaos.real import PATIENCE, RETRY, RealWorld, hasty
from tests.running import until
from tests.ssh import sshd
from tests.stack.conftest import stack  # noqa: F401 - the fixture

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from remote.schema import Exit
    from tests.stack.conftest import Stack

# Five loads take a quarter of an hour where ten others want the same two processors.
pytestmark = [pytest.mark.stack, pytest.mark.xdist_group("stack"), pytest.mark.timeout(2400)]
needs_mount = pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("mount") is None, reason="a small disk cannot be mounted here"
)
SILENCING = ("cut", "silence", "kill server")  # what the user is told of
OF_THE_LINK = (*SILENCING, "slow", "controller killed", "second start", "clock jump")
FROZEN = 0.7  # seconds
DISK = "64m"  # four times what the samples take


def extracted(world: RealWorld, meanwhile: Callable[[], None]) -> Exit | None:
    """Extract and follow as a user does, and do something meanwhile."""

    def act() -> None:
        try:
            meanwhile()
        except Exception:  # noqa: BLE001 - told with all that did not hold
            world.note(False, traceback.format_exc(limit=-6))  # noqa: FBT003

    acting = threading.Thread(target=act)
    acting.start()
    try:
        return world._extract()
    finally:
        acting.join()
        world._remember()


def over(world: RealWorld) -> list[str]:
    """Let the user finish, end the world; gives what did not hold."""
    try:
        if not world.faults_seen:
            world.live()
    finally:
        left = [str(one) for one in world.lab.clean_up()]
        for other in world._elsewhere:
            other.host.link.close()
    return [*world.faults_seen, *(f"left running: {one}" for one in left)]


@pytest.mark.skipif(sshd.program() is None, reason="no OpenSSH server is installed")
def test_one_load_lives_through_all_that_happens_to_links_clocks_and_users(
    stack: Stack, tmp_path: Path  # noqa: F811
) -> None:  # fmt: skip
    """While the engine is held, so that each fault is sure to meet a run that goes on."""
    dice = random.Random(4)  # noqa: S311

    with contextlib.ExitStack() as held:
        server = held.enter_context(sshd.running(tmp_path))
        proxy = held.enter_context(RoughProxy(server.port))
        link = server.link(port=proxy.port, pin_file=tmp_path / "pins")
        world = RealWorld(tmp_path, stack, copies=3, batch_size=1, link=link, link_faults=SshFaults(proxy, server),
                          home=server.home, retry=RETRY)  # fmt: skip

        def everything() -> None:
            for name in OF_THE_LINK:
                world.wait_for_more()
                with world.held("worker"):
                    told = len(world.said)
                    world.note(faults.DURING[name](world, dice), f"{name} hit nobody")
                    if name in SILENCING:  # the next one finds a link again that it can be done to
                        until(
                            lambda told=told: any("link is back" in one for one in world.said[told:]),
                            f"the link back after {name}",
                            patience=PATIENCE,
                        )
            for who in ("supervisor", "attempt", "worker"):
                world.wait_for_more()
                with world.held(who):
                    time.sleep(FROZEN)

        ended = extracted(world, everything)
        started = runs.folders(world.lab.workdir)
        assert not over(world), world.said
        assert ended is not None
        assert (ended.phase, ended.code, ended.attempts) == ("done", 0, 1)
        assert len(started) == 1


@needs_mount
def test_kills_hangs_a_full_disk_and_damage(stack: Stack, tmp_path: Path) -> None:  # noqa: F811
    """Four loads: the first attempt is killed, the next one hangs, the disk fills under the third."""
    dice = random.Random(4)  # noqa: S311
    (tmp_path / "disk").mkdir()
    with mounted(tmp_path / "disk", DISK):
        world = RealWorld(tmp_path, stack, batch_size=1, retry=hasty())

        def in_turn() -> None:
            world.wait_for_more(3)
            with world.held("attempt", then=signal.SIGKILL):
                pass
            world.wait_for_more(3)
            before = world.hangs()
            with world.held("attempt"):
                until(lambda: world.hangs() > before, "the hang", patience=PATIENCE)
            world.wait_for_more(3)
            with faults.filled(world.disk):
                until(lambda: world.newest() is None, "the end of the run", patience=PATIENCE)

        ended = extracted(world, in_turn)
        assert not world.faults_seen
        assert ended is not None
        assert (ended.phase, ended.cause, ended.kind) == ("failed", "disk-full", "fatal")
        for name in ("truncate", "flip", "zero", "exchange", "remove", "extra", "tear manifest"):
            until(lambda name=name: faults.BETWEEN[name](world, dice), name)  # one that is drawn twice hits nobody
        world._forget_damaged(all_of_them=False)
        assert not world._verified()
        world.job = dataclasses.replace(world.job, retry=RETRY)  # what is left to do needs no haste
        assert not over(world)
