"""Random faults while a job is extracted; each schedule is replayable by its seed. Afterwards nothing is lost,
doubled, or left running, and what the user was told is true.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.chaos.links import RoughProxy, SshFaults
from tests.chaos.living import disk, lived, told
from tests.chaos.plan import Plan
from tests.chaos.world import World
from tests.ssh import embedded, sshd

if TYPE_CHECKING:
    from tests.chaos.pretend import Pretence

COUNT = int(os.environ.get("CHAOS_N", "304"))
BATCH = 16
SIDE_BY_SIDE = 6  # in one process: a schedule mostly waits
SSH_EVERY = 12  # one of so many schedules goes over a real SSH server
SMALL_DISK_EVERY = 4  # one of so many has a small disk that can be filled
CAN_MOUNT = os.geteuid() == 0 and shutil.which("mount") is not None
ONE = os.environ.get("CHAOS_SEED")
KEPT = os.environ.get("CHAOS_KEEP")  # a file for what was done, one line per schedule
# Seeds of schedules that once went wrong, and at what; what was the product's fault has a test in test_found.py too.
FOUND = {
    50042: "damage that verify had condemned was computed again",
    50066: "a manifest torn away behind a file that was changed",
    70005: "a disk that is filled twice at once",
    6792950256: "attached to a run whose supervisor was killed before its first attempt, and that was removed for it",
    6293010241: "half a file of bytecode, left by a full disk",
}


def live(root: Path, pretence: Pretence, seed: int) -> tuple[Plan, str]:
    """Live through the schedule of a seed; gives what went wrong with it, told."""
    small = CAN_MOUNT and seed % SMALL_DISK_EVERY == 1
    plan = Plan.draw(seed, small_disk=small)
    with contextlib.ExitStack() as stack:
        stack.enter_context(disk(root, small=small))
        if seed % SSH_EVERY:
            world = World(root, pretence, plan, small_disk=small)
        else:
            server = stack.enter_context((sshd if sshd.program() else embedded).running(root))
            proxy = stack.enter_context(RoughProxy(server.port))
            link = server.link(port=proxy.port, pin_file=root / "pins")
            world = World(root, pretence, plan, link=link, link_faults=SshFaults(proxy, server), home=server.home,
                          small_disk=small)  # fmt: skip
        problems = lived(world)
        if KEPT:  # one write of one line: several processes append
            with Path(KEPT).open("a") as file:
                file.write(f"{plan}{': WENT WRONG' if problems else ''}\n")
        return plan, told(world, problems) if problems else ""


def seeds() -> list[list[int]]:
    if ONE:
        return [[int(ONE)]]
    first = int(os.environ.get("CHAOS_BASE", "0"))
    return [list(range(first + at, first + min(at + BATCH, COUNT))) for at in range(0, COUNT, BATCH)]


def live_all(root: Path, pretence: Pretence, numbers: list[int]) -> list[Plan]:
    with ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
        done = list(pool.map(lambda seed: live(root / f"s{seed}", pretence, seed), numbers))
    wrong = [said for _, said in done if said]
    assert not wrong, f"{len(wrong)} of {len(numbers)} schedules:\n\n" + "\n\n".join(wrong)
    return [plan for plan, _ in done]


@pytest.mark.parametrize("batch", range(len(seeds())))
def test_whatever_happens_each_sample_is_there_once_and_nothing_is_left(
    tmp_path: Path, pretence: Pretence, batch: int
) -> None:
    numbers = seeds()[batch]
    plans = live_all(tmp_path, pretence, numbers)
    struck = [fault.name for plan in plans for fault in plan if fault.struck]
    assert ONE or len(struck) >= len(plans) / 2, "the faults hit nobody: this shows nothing"


def test_what_once_went_wrong(tmp_path: Path, pretence: Pretence) -> None:
    live_all(tmp_path, pretence, list(FOUND))
