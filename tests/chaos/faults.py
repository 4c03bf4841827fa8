"""What can happen to a run: each fault is a function of a world and its dice, and says whether it struck anybody."""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

from local.errors import PrudentError
from remote.host import processes
from remote.run import runs
from tests.chaos import who

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from random import Random

    from remote.host.processes import Process
    from remote.paths import Run
    from remote.schema import State
    from tests.chaos.world import World


# ---- the run's processes ---------------------------------------------------------------------------------------------


def _state(world: World) -> State | None:
    """Give the state of the run that goes on, if one does."""
    run = world.newest()
    state = runs.look(run).state if run is not None else None
    return state if state is not None and runs.owned(state) else None


def _supervisor(world: World) -> list[Process]:
    state = _state(world)
    found = processes.read(state.pid) if state else None
    return [found] if found else []


def _attempt(world: World) -> list[Process]:
    state = _state(world)
    if state is None:
        return []
    found = (one for one in processes.started_by(state.pid) if one.parent == state.pid and one.name != "sleep")
    # Between fork and exec it is the supervisor's twin, which waits for it: who stops that one stops the supervisor.
    return [one for one in found if who.said(one.pid) != who.said(state.pid)]


def _worker(world: World) -> list[Process]:
    run = world.newest()
    return [one for one in processes.of_run(run) if one.name == "sleep"] if run else []


def _everybody(world: World) -> list[Process]:
    run = world.newest()
    return [*_supervisor(world), *(processes.of_run(run) if run else [])]


def _killer(find: Callable[[World], list[Process]]) -> Callable[[World, Random], bool]:
    def kill(world: World, _: Random) -> bool:
        found = find(world)
        for process in found:
            processes.send(process, signal.SIGKILL)
        return bool(found)

    return kill


def _freezer(find: Callable[[World], list[Process]]) -> Callable[[World, Random], bool]:
    def freeze(world: World, dice: Random) -> bool:
        seconds, then = dice.uniform(0.1, 0.9), dice.choice([signal.SIGCONT, signal.SIGCONT, signal.SIGKILL])
        found = find(world)
        for process in found:
            processes.send(process, signal.SIGSTOP)
        time.sleep(seconds)
        for process in found:
            processes.send(process, then)
        return bool(found)

    return freeze


def hang_attempt(world: World, _: Random) -> bool:
    """Stop the attempt for good: that it hangs must be noticed."""
    found = _attempt(world)
    for process in found:
        processes.send(process, signal.SIGSTOP)
    return bool(found)


def kill_launch(world: World, _: Random) -> bool:
    """Kill the verb that starts the run, wherever it is."""
    found = world.payload("launch")
    for process in found:
        processes.send(process, signal.SIGKILL)
    return bool(found)


# ---- the link --------------------------------------------------------------------------------------------------------


def cut(world: World, _: Random) -> bool:
    """Break what is being read now."""
    return world.link_faults.cut()


def silence(world: World, dice: Random) -> bool:
    """Let nothing come through for longer than the follower's patience with silence; connections stay open."""
    return world.link_faults.silence(world.silence + dice.uniform(0.3, 1.0))


def slow(world: World, dice: Random) -> bool:
    """Make the link slow and lossy (seen from above: packets that are sent again make everything stutter)."""
    return world.link_faults.slow(dice.uniform(0.2, 1.5))


def kill_server(world: World, _: Random) -> bool:
    """Kill the SSH server's processes that serve our connections."""
    return world.link_faults.kill_server()


# ---- the user, and other users ---------------------------------------------------------------------------------------


def second_start(world: World, _: Random) -> bool:
    """Start the same job from elsewhere at this moment: one run at a time, whoever asks."""
    answers: list[str] = []

    def start() -> None:
        with contextlib.suppress(PrudentError):  # what else goes on may refuse it; there may never be two
            answers.append(world.start_elsewhere())

    together = [threading.Thread(target=start) for _ in range(2)]
    for thread in together:
        thread.start()
    for thread in together:
        thread.join()
    world.check_one_at_a_time()
    return bool(answers)


def stop(world: World, dice: Random) -> bool:
    """Stop the run as a user does."""
    run: Run | None = world.newest()
    if run is None:
        return False
    answer = world.lab.stop(run.id, grace=dice.choice([0.0, 0.3, 2.0]))
    # A run whose supervisor is killed before its first attempt is removed by its launch, which says so.
    true = answer.outcome in ("stopped", "already-ended") or not Path(run.root).exists()
    world.note(true, f"stop answered {answer.outcome}: {answer.message}")
    return answer.outcome == "stopped"


def controller_killed(world: World, dice: Random) -> bool:
    """Follow from a controller process of its own as well, and kill it."""
    return world.doomed_controller(dice.uniform(0.4, 1.5))


# ---- the host --------------------------------------------------------------------------------------------------------


def clock_jump(world: World, dice: Random) -> bool:
    """Set the wall clock of the pretended host."""
    offset = dice.choice([-30 * 86400, -3600, -7, 45, 3600, 30 * 86400])
    (world.home / ".clock-offset").write_text(str(offset))
    return True


def disk_full(world: World, dice: Random) -> bool:
    """Fill the small disk that holds workdir and output, and free it after a while."""
    if not world.small_disk:
        return False
    with filled(world.disk):
        time.sleep(dice.uniform(0.1, 1.5))
    return True


@contextlib.contextmanager
def filled(disk: Path) -> Iterator[None]:
    """Take all the room that a disk has, for a while."""
    ballast = disk / f"ballast-{threading.get_ident()}"
    descriptor = os.open(ballast, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    try:
        for size in (1 << 16, 1 << 12, 1):
            try:
                while True:
                    os.write(descriptor, b"x" * size)
            except OSError as error:
                if error.errno != errno.ENOSPC:
                    raise
        yield
    finally:
        os.close(descriptor)
        ballast.unlink()


DURING = {
    "cut": cut,
    "silence": silence,
    "slow": slow,
    "kill server": kill_server,
    "kill launch": kill_launch,
    "kill supervisor": _killer(_supervisor),
    "kill attempt": _killer(_attempt),
    "kill worker": _killer(_worker),
    "kill everybody": _killer(_everybody),
    "freeze supervisor": _freezer(_supervisor),
    "freeze attempt": _freezer(_attempt),
    "freeze worker": _freezer(_worker),
    "hang attempt": hang_attempt,
    "second start": second_start,
    "stop": stop,
    "controller killed": controller_killed,
    "clock jump": clock_jump,
    "disk full": disk_full,
}
WEIGHTS = {"hang attempt": 0.3, "slow": 0.7, "kill server": 0.7, "controller killed": 0.5, "silence": 0.5}


# ---- files, between two runs -----------------------------------------------------------------------------------------


def _standing(world: World, dice: Random) -> Path | None:
    """Draw a sample that stands."""
    standing = [sample for sample in world.samples if sample.stands(world.output)]
    return world.output / f"data_{dice.choice(standing).index}.pt" if standing else None


def truncate(world: World, dice: Random) -> bool:
    """Cut a sample's file."""
    path = _standing(world, dice)
    if path is not None:
        os.truncate(path, dice.randint(0, path.stat().st_size - 1))
    return path is not None


def flip(world: World, dice: Random) -> bool:
    """Change one bit of a sample's file; its size stays."""
    path = _standing(world, dice)
    if path is None:
        return False
    data = bytearray(path.read_bytes())
    data[dice.randrange(len(data))] ^= 1 << dice.randrange(7)
    path.write_bytes(data)
    return True


def zero(world: World, dice: Random) -> bool:
    """Put zeros in place of a sample's numbers; its size stays."""
    path = _standing(world, dice)
    if path is not None:
        path.write_bytes(path.read_bytes().replace(b"1", b"0").replace(b"2", b"0"))
    return path is not None


def remove(world: World, dice: Random) -> bool:
    """Remove a sample's file."""
    path = _standing(world, dice)
    if path is not None:
        path.unlink()
    return path is not None


def remove_half(world: World, dice: Random) -> bool:
    """Remove many files, so that there is much to do again."""
    gone = [sample for sample in world.samples if dice.random() < 0.6]
    for sample in gone:
        (world.output / f"data_{sample.index}.pt").unlink(missing_ok=True)
    return bool(gone)


def exchange(world: World, dice: Random) -> bool:
    """Put one sample's file in another's place."""
    one, other = _standing(world, dice), _standing(world, dice)
    if one is None or other is None or one == other:
        return False
    other.write_bytes(one.read_bytes())
    return True


def extra(world: World, _: Random) -> bool:
    """Leave a file that the trainer would take for a sample."""
    if not world.output.is_dir():
        return False
    (world.output / "data_999.pt").write_bytes(b"not ours")
    return True


def tear_manifest(world: World, dice: Random) -> bool:
    """Cut the manifest somewhere, as a crash of the whole machine may."""
    manifest = world.output / "manifest.jsonl"
    if not manifest.exists() or not manifest.stat().st_size:
        return False
    os.truncate(manifest, dice.randint(1, manifest.stat().st_size))
    return True


def garble_manifest(world: World, dice: Random) -> bool:
    """Change one byte of the manifest."""
    manifest = world.output / "manifest.jsonl"
    if not manifest.exists() or not manifest.stat().st_size:
        return False
    data = bytearray(manifest.read_bytes())
    data[dice.randrange(len(data))] = dice.randrange(256)
    manifest.write_bytes(data)
    return True


SAME_SIZE = {
    "flip": flip,
    "zero": zero,
    "exchange": exchange,
    "garble manifest": garble_manifest,
}
BETWEEN = {
    "truncate": truncate,
    "remove": remove,
    "remove half": remove_half,
    "extra": extra,
    "tear manifest": tear_manifest,
    **SAME_SIZE,
}
