"""Live through a schedule, on a disk of its own, and tell how it went so that it can be replayed."""

from __future__ import annotations

import contextlib
import subprocess
import traceback
from pathlib import Path
from typing import TYPE_CHECKING

from local.errors import PrudentError
from remote.run import runs
from tests.chaos.world import DEADLINE, Overdue, World

if TYPE_CHECKING:
    from collections.abc import Iterator

DISK = "8m"
TOLD_RUNS, TOLD_CHARACTERS = 4, 500


@contextlib.contextmanager
def disk(root: Path, *, small: bool) -> Iterator[None]:
    """Give `root/disk`: a folder, or a small file system of its own."""
    folder = root / "disk"
    folder.mkdir(parents=True)
    if not small:
        yield
        return
    with mounted(folder, DISK):
        yield


@contextlib.contextmanager
def mounted(folder: Path, size: str) -> Iterator[None]:
    """Put a small file system of its own in a folder's place."""
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "chaos", str(folder)], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def told(world: World, problems: list[str]) -> str:
    """Tell a schedule that went wrong so that it can be replayed and understood."""
    lines = [str(world.plan), *(f"  {problem}" for problem in problems)]
    for run in reversed(runs.folders(world.lab.workdir)[:TOLD_RUNS]):
        for name in ("supervisor.log", "log", "exit.json"):
            path = Path(run.root) / name
            if path.exists() and path.stat().st_size:
                said = path.read_text(errors="replace")[-TOLD_CHARACTERS:].replace("\n", "\n      ")
                lines.append(f"    {run.id}/{name}: {said}")
    return "\n".join(lines)


def lived(world: World) -> list[str]:
    """Live through a schedule; gives what did not hold."""
    try:
        world.live()
    except Overdue:
        world.note(False, f"not over after {DEADLINE:g} s")  # noqa: FBT003
    except PrudentError as error:
        world.note(False, f"the user was told {type(error).__name__}: {error.message}")  # noqa: FBT003
    except Exception:  # noqa: BLE001 - told with the schedule
        world.note(False, traceback.format_exc(limit=-8))  # noqa: FBT003
    finally:
        left = [str(one) for one in world.lab.clean_up()]
        for other in world._elsewhere:
            other.host.link.close()
        world.note(not left or bool(world.faults_seen), f"left running: {left}")
    return world.faults_seen
