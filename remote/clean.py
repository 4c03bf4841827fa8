"""Verb `clean`: say what of a workdir is not needed any more, and remove it where that is asked for.

Nothing is reached through a link: the workdir is opened once, every folder in it by name without following, and what
goes is first moved aside under a name that nobody looks for, so that nothing half removed is ever taken for whole.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import shutil
import stat
import time
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from remote import inuse, verdict, wire
from remote.host import processes, sockets
from remote.paths import Workdir
from remote.run import rubbish, runs
from remote.run.rubbish import Other, Seen, SeenBundle, SeenRun, SeenVerdict
from remote.schema import CleanAnswer, CleanRequest, Rubbish, Verdict

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from remote.run.rubbish import Item
    from remote.run.runs import Snapshot

PATIENCE = 20.0  # seconds for launches that are under way
TRIES = 100  # to remove what others are removing, too
ASIDE = ".gone-"
TOO_DEEP = "its folders are nested too deep to be looked through"
INCOMING = ".incoming-"
FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
FOLDERS = {"run": "runs", "bundle": "bundles", "verdict": "verdicts"}


def answer(request: CleanRequest) -> CleanAnswer:
    """Look, and remove what was found where that is asked for."""
    try:
        root = os.open(request.workdir, os.O_RDONLY | os.O_DIRECTORY)
    except FileNotFoundError:
        return CleanAnswer()
    except OSError as error:
        return CleanAnswer(trouble=f"{request.workdir}: {error.strerror}")
    try:
        cleaning = _Cleaning(request, root)
        with inuse.alone(root, PATIENCE):
            cleaning.decide()
        cleaning.sweep_sockets()
        return cleaning.finish()  # what was moved aside nobody looks for: launches need not wait for this
    except inuse.Busy:
        return CleanAnswer(trouble=f"a run is being started in {request.workdir} just now: ask again in a minute")
    except OSError as error:
        return CleanAnswer(trouble=f"{request.workdir} cannot be locked against a launch: {error.strerror}")
    finally:
        os.close(root)


class _Cleaning:
    """One look at a workdir, and what follows from it."""

    def __init__(self, request: CleanRequest, root: int) -> None:
        self._request = request
        self._root = root
        self._now = time.time()
        self._paths = Workdir(PurePosixPath(os.path.realpath(request.workdir)))
        self._outputs: set[str] = set()
        self._environments: list[Mapping[str, str]] = [{}]  # ours, and those of the jobs that were run here
        self._spared: list[str] = []
        self._items: list[tuple[Rubbish, str]] = []  # each with the path to which it was moved, if it was
        self._kept: dict[str, int] = {}

    def decide(self) -> None:
        """Look, decide, and move aside what is to be removed."""
        seen = Seen(
            runs=list(self._runs()),
            bundles=list(self._bundles()),
            verdicts=list(self._verdicts()),
            others=[*self._leftovers(), *self._bytecode()],
        )
        chosen = rubbish.decide(seen, keep=self._request.keep)
        self._items = [item for each in chosen if (item := self._deal_with(each)) is not None]
        going = {kind: sum(each.kind == kind for each in chosen) for kind in FOLDERS}
        there = {"run": len(seen.runs), "bundle": len(seen.bundles), "verdict": len(seen.verdicts)}
        self._kept = {kind: there[kind] - going[kind] for kind in FOLDERS}

    def sweep_sockets(self) -> None:
        """Remove the folders for sockets that killed processes have left where temporary files are."""
        for environment in self._environments if self._request.remove else ():
            sockets.sweep_left(environment)

    def finish(self) -> CleanAnswer:
        """Remove what was moved aside."""
        items = tuple(self._gone(item, aside) if aside else item for item, aside in self._items)
        return CleanAnswer(items=items, kept=self._kept, spared=tuple(self._spared))

    # ---- what is there -----------------------------------------------------------------------------------------

    def _runs(self) -> Iterator[SeenRun]:
        found = [runs.look(run) for run in runs.folders(str(self._paths.root)) if self._own("runs", run.id)]
        for seen in found:
            self._outputs |= {os.path.realpath(path) for path in _outputs(seen)}
            self._environments += [seen.request.job.env] if seen.request else []
        for place, seen in enumerate(found):
            busy = _busy(seen, examined=any(later.state is not None for later in found[:place]))
            if busy is not None and seen.exit is not None:
                self._spared.append(f"{seen.run.id}: {busy}")
            yield SeenRun(
                name=seen.run.id,
                age=self._now - (seen.exit.ended if seen.exit else seen.state.heartbeat if seen.state else self._now),
                bundle=seen.request.bundle if seen.request else None,
                fingerprint=seen.request.fingerprint if seen.request else None,
                busy=busy,
            )

    def _bundles(self) -> Iterator[SeenBundle]:
        names = [name for name in self._names("bundles") if not name.startswith(".")]
        worked_with = inuse.by_processes(names)
        for name in names:
            yield SeenBundle(name=name, age=self._age("bundles", name), busy=name in worked_with)

    def _verdicts(self) -> Iterator[SeenVerdict]:
        for name in self._names("verdicts"):
            if name.startswith(".") or not name.endswith(".json"):
                continue
            age, made = self._age("verdicts", name), self._verdict(name)
            if made is None:
                yield SeenVerdict(name=name, age=age)
                continue
            yield SeenVerdict(
                name=name, age=age, fingerprint=made.fingerprint, job=made.basis.get("job", ""), bundle=made.bundle,
                passed=made.verdict == "pass",
            )  # fmt: skip

    def _verdict(self, name: str) -> Verdict | None:
        with contextlib.suppress(OSError, wire.WireError, ValueError), self._opened("verdicts") as folder:
            file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=folder)
            with os.fdopen(file, "rb") as stream:
                made = wire.loads(Verdict, stream.read(), name)
            return made if verdict.FINGERPRINT.fullmatch(made.fingerprint) else None
        return None

    def _leftovers(self) -> Iterator[Other]:
        for folder in FOLDERS.values():
            for name in self._names(folder):
                if name.startswith(ASIDE):  # nobody looks for these: any age will do
                    yield Other(kind="leftover", name=f"{folder}/{name}", age=rubbish.RECENT)
                elif name.startswith(INCOMING) or (name.startswith(".") and name.endswith(".tmp")):
                    yield Other(kind="leftover", name=f"{folder}/{name}", age=self._age(folder, name))

    def _bytecode(self) -> Iterator[Other]:
        told = {self._request.workdir, str(self._paths.root)}
        for spelled in sorted(told):
            place = f"cache/pycache{Workdir(PurePosixPath(spelled)).bundles}"
            for name in self._names(place):
                yield Other(kind="bytecode", name=f"{place}/{name}", age=self._age(place, name), of=name)

    # ---- what goes ---------------------------------------------------------------------------------------------

    def _deal_with(self, item: Item) -> tuple[Rubbish, str] | None:
        """Tell of a thing, and move it aside where that is asked for; None where it has gone by itself."""
        place = f"{FOLDERS[item.kind]}/{item.name}" if item.kind in FOLDERS else item.name
        folder, _, name = place.rpartition("/")
        path = str(self._paths.root / place)
        told = Rubbish(kind=item.kind, path=path, size=0, why=item.why, age=max(0.0, item.age))
        try:
            with self._opened(folder) as opened:
                try:
                    size, trouble = self._weigh(opened, name, path)
                except RecursionError:
                    size, trouble = 0, TOO_DEEP
                told = replace(told, size=size, trouble=trouble)
                if trouble or not self._request.remove:
                    return told, ""
                return told, f"{folder}/{_move_aside(opened, name)}"
        except FileNotFoundError:
            return None
        except OSError as error:
            return replace(told, trouble=str(error.strerror)), ""

    def _gone(self, item: Rubbish, aside: str) -> Rubbish:
        folder, _, name = aside.rpartition("/")
        try:
            with self._opened(folder) as opened:
                _remove(opened, name)
        except OSError as error:
            return replace(item, trouble=f"{error.strerror} ({Path(str(error.filename or name)).name})")
        except RecursionError:
            return replace(item, trouble=TOO_DEEP)
        return replace(item, gone=True)

    def _weigh(self, folder: int, name: str, path: str) -> tuple[int, str]:
        """Give what removing a thing gives back, and why it must not be removed."""
        state = os.stat(name, dir_fd=folder, follow_symlinks=False)
        if state.st_uid != os.geteuid():
            return 0, "it belongs to another user"
        if inside := next((each for each in sorted(self._outputs) if _within(each, path)), None):
            return 0, f"it holds outputs: {inside}"
        size = state.st_blocks * 512
        if not _is_folder(state):
            return size, ""
        for _, folders, files, opened in os.fwalk(name, dir_fd=folder, follow_symlinks=False):
            for each in (*folders, *files):
                with contextlib.suppress(FileNotFoundError):
                    found = os.stat(each, dir_fd=opened, follow_symlinks=False)
                    size += found.st_blocks * 512
                    if found.st_dev != state.st_dev:
                        return size, "another file system is mounted in it"
        return size, ""

    # ---- by name, never through a link -------------------------------------------------------------------------

    @contextlib.contextmanager
    def _opened(self, folder: str) -> Iterator[int]:
        """Open a folder below the workdir, part by part, following no link; raises OSError."""
        descriptor = os.dup(self._root)
        try:
            for part in folder.split("/"):
                if part in {"", ".", ".."}:
                    raise OSError(errno.EINVAL, os.strerror(errno.EINVAL), folder)
                below = os.open(part, FOLDER, dir_fd=descriptor)
                os.close(descriptor)
                descriptor = below
            yield descriptor
        finally:
            os.close(descriptor)

    def _names(self, folder: str) -> list[str]:
        with contextlib.suppress(OSError), self._opened(folder) as opened:
            return sorted(os.listdir(opened))  # noqa: PTH208 - of a descriptor: pathlib knows none
        return []

    def _own(self, folder: str, name: str) -> bool:
        """Say whether a name is a folder of this very workdir, and no link to another place."""
        with contextlib.suppress(OSError), self._opened(folder) as opened:
            return _is_folder(os.stat(name, dir_fd=opened, follow_symlinks=False))
        return False

    def _age(self, folder: str, name: str) -> float:
        with contextlib.suppress(OSError), self._opened(folder) as opened:
            return self._now - os.stat(name, dir_fd=opened, follow_symlinks=False).st_mtime
        return 0.0


def _busy(seen: Snapshot, *, examined: bool) -> str | None:
    """Say why a run's folder must stay; `examined`: a later launch has ended what it might have left behind."""
    if seen.faults:
        return "its files cannot be understood"
    if seen.active:
        return "it goes on"
    if seen.exit is None and not examined:
        return "it is lost, and nobody has looked after what it left; the next launch does"
    if living := processes.of_run(seen.run):
        return f"processes of it live: {', '.join(str(process.pid) for process in living[:5])}"
    return None


def _outputs(seen: Snapshot) -> Iterator[str]:
    if seen.request is not None:
        yield seen.request.job.output
    if seen.state is not None:
        yield seen.state.output


def _within(path: str, folder: str) -> bool:
    return path == folder or path.startswith(f"{folder}/")


def _is_folder(state: os.stat_result) -> bool:
    return stat.S_ISDIR(state.st_mode)


def _move_aside(folder: int, name: str) -> str:
    """Give a thing a name that nobody looks for, so that nothing half removed is ever taken for whole."""
    if name.startswith(ASIDE):
        return name
    aside = f"{ASIDE}{secrets.token_hex(4)}-{name}"[:200]
    os.rename(name, aside, src_dir_fd=folder, dst_dir_fd=folder)
    return aside


def _remove(folder: int, name: str) -> None:
    """Remove a thing; links in it are removed, never followed. What another clean removes meanwhile is no trouble."""
    for _ in range(TRIES):
        try:
            if _is_folder(os.stat(name, dir_fd=folder, follow_symlinks=False)):
                shutil.rmtree(Path(f"/proc/self/fd/{folder}", name))
            else:
                os.unlink(name, dir_fd=folder)
        except FileNotFoundError:  # of something in it, or of itself: the next look tells
            continue
        return
    with contextlib.suppress(FileNotFoundError):
        os.stat(name, dir_fd=folder, follow_symlinks=False)
        raise OSError(errno.EBUSY, os.strerror(errno.EBUSY), name)
