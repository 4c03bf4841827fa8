"""One schedule: a pretended host, a user who says `extract` until it is done, faults meanwhile, and what must hold."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import weakref
from pathlib import Path
from typing import TYPE_CHECKING, Any

from local import extract
from local import runs as user_runs
from local.errors import GateRefused, LinkLost
from local.follow import follow
from remote import files, status, wire
from remote.host import processes, sockets
from remote.run import runs
from remote.schema import Samples
from tests.chaos import faults, pretend, who
from tests.chaos.links import HereFaults
from tests.chaos.pretend import SAMPLES
from tests.running import PATIENCE, Lab

if TYPE_CHECKING:
    from local.links.base import Link
    from remote.paths import Run
    from remote.schema import Exit, Job
    from tests.chaos.links import LinkFaults
    from tests.chaos.plan import Fault, Plan

REPO = Path(__file__).parents[2]
DEADLINE = 150.0  # seconds of a schedule, on a machine with much else to do
CLEAN_STARTS = 6  # so often a user may have to say `extract` when nothing is done to it any more
SECRET = "hush-hush-hush"


class Overdue(BaseException):
    """A schedule takes too long: something waits for what will not come."""


def short_folder(world: object) -> Path:
    """Give a folder for temporary files with a name that is short enough for sockets; it goes with the world."""
    folder = tempfile.mkdtemp(prefix="chaos-")
    weakref.finalize(world, shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)


class World:
    """The host, the user and what they know."""

    silence = 3.0  # seconds without a frame that the follower bears
    verifying = PATIENCE

    def __init__(
        self, root: Path, pretence: pretend.Pretence, plan: Plan, *,
        link: Link | None = None, link_faults: LinkFaults | None = None, home: Path | None = None,
        small_disk: bool = False,
    ) -> None:  # fmt: skip
        self.root, self.plan, self.small_disk = root, plan, small_disk
        self.disk = root / "disk"
        self.home = home or root
        self.samples = pretend.dataset(SAMPLES, random.Random(plan.seed))  # noqa: S311
        self.faults_seen: list[str] = []
        self.said: list[str] = []  # what the user was told of the link since the last start
        self._until = time.monotonic() + DEADLINE
        self._doomed: list[Path] = []
        self._finished: dict[int, tuple[int, int]] = {}
        here = HereFaults(root)
        self.link_faults: LinkFaults = link_faults or here
        self.sockets = short_folder(self)
        pretence.furnish(self.disk)
        pretend.write_dataset(root / "data.jsonl", self.samples)
        self.job: Job = pretend.job(self.disk, str(pretence.python), dataset=str(root / "data.jsonl"),
                                    secret_env=("TOKEN",))  # fmt: skip
        self.job = dataclasses.replace(self.job, env={**self.job.env, "TMPDIR": str(self.sockets)})
        self.output = Path(self.job.output)
        self.lab = Lab(self.disk, python=str(pretence.python), link=link or here)
        self._python, self._elsewhere = str(pretence.python), list[Lab]()

    # ---- what faults ask ---------------------------------------------------------------------------------------------

    def newest(self) -> Run | None:
        """Give the newest run that may go on."""
        return next((run for run in runs.folders(self.lab.workdir) if runs.look(run).active), None)

    def payload(self, verb: str) -> list[processes.Process]:
        """Give the processes of a verb on this host."""
        entry = str(Path(self.lab.workdir) / "bundles")
        return [one for one in processes.everybody() if {verb, entry} <= who.words(one.pid, entry)]

    def start_elsewhere(self) -> str:
        """Start the job from another controller; gives the run."""
        other = Lab(self.disk, python=self._python, link=HereFaults(self.root))
        self._elsewhere.append(other)
        return extract.start(other.host, self.job, bundle=self.lab.bundle, fingerprint="f", secrets={}).run or ""

    def check_one_at_a_time(self) -> None:
        """Hold that no two runs go on."""
        active = [run.id for run in runs.folders(self.lab.workdir) if (state := runs.look(run)).active and state.state]
        self.note(len(active) <= 1, f"runs at the same time: {active}")

    def note(self, holds: bool, otherwise: str) -> None:  # noqa: FBT001
        """Note what does not hold; told when the schedule is over."""
        if not holds:
            self.faults_seen.append(otherwise)

    def doomed_controller(self, seconds: float) -> bool:
        """Let a controller process extract and follow for so long, and kill it."""
        received = self.root / f"received-{len(self._doomed)}"
        self._doomed.append(received)
        files.replace(self.root / "job.json", wire.dumps(self.job).encode())
        words = [sys.executable, "-m", "tests.chaos.controller", self.lab.bundle, *map(str, (self.disk, self.root))]
        process = subprocess.Popen(
            [*words, str(received)], cwd=REPO, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )  # fmt: skip
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(seconds)
        process.kill()
        return process.wait() == -signal.SIGKILL

    def complaints(self) -> list[str]:
        """Say what is wrong with the finished output folder."""
        return pretend.complaints(self.output, self.samples)

    # ---- the user ----------------------------------------------------------------------------------------------------

    def live(self) -> None:
        """Go through the plan, then let the user finish, then hold what must be true."""
        for during, after in zip(self.plan.rounds, self.plan.damage, strict=True):
            self._round(during)
            self._remember()
            for fault in after if self.newest() is None else ():
                fault.struck = faults.BETWEEN[fault.name](self, random.Random(fault.seed))  # noqa: S311
            self._forget_damaged(all_of_them=any("garble" in fault.name for fault in after))
        for _ in range(CLEAN_STARTS):
            ended = self._round([])
            self._remember()
            if ended is not None and ended.phase == "done" and self._verified():
                break
        else:
            self.note(False, f"not done after {CLEAN_STARTS} starts without a fault")  # noqa: FBT003
        self._hold()

    def _round(self, planned: list[Fault]) -> Exit | None:
        over = threading.Event()
        striking = [threading.Thread(target=self._strike, args=(fault, over), name=fault.name) for fault in planned]
        for thread in striking:
            thread.start()
        ended = None
        try:
            ended = self._extract()
        except GateRefused as error:
            refused = {"disk full", "kill supervisor", "kill everybody"}.intersection(fault.name for fault in planned)
            refused |= {fault.name for fault in planned if fault.name == "freeze supervisor" and fault.struck}
            self.note(bool(refused), f"refused: {error.message}")
        except LinkLost as error:
            self.note(bool(planned), f"link lost without a cause: {error.message}")
        finally:
            over.set()
            for thread in striking:
                thread.join()
        return ended

    def _strike(self, fault: Fault, over: threading.Event) -> None:
        while not self._due(fault):
            if over.wait(0.03):
                return
        if over.wait(fault.delay):
            return
        try:
            fault.struck = faults.DURING[fault.name](self, random.Random(fault.seed))  # noqa: S311
        except LinkLost:
            fault.struck = False  # another fault has cut this one short
        except Exception:  # noqa: BLE001 - told with the schedule
            self.note(False, f"{fault.name} met {traceback.format_exc(limit=-6)}")  # noqa: FBT003

    def _due(self, fault: Fault) -> bool:
        if fault.after == "start":
            return True
        run = self.newest()
        if run is None or not Path(run.state).exists():
            return False
        return fault.after == "run" or self._files() >= int(fault.after)

    def _files(self) -> int:
        try:
            return sum(name.endswith(".pt") for name in os.listdir(self.output))  # noqa: PTH208 - quick and often
        except FileNotFoundError:
            return 0

    def _extract(self) -> Exit | None:
        answer = extract.start(
            self.lab.host, self.job, bundle=self.lab.bundle, fingerprint="f", secrets={"TOKEN": SECRET}
        )
        log, events, said = bytearray(), list[dict[str, Any]](), self.said
        said.clear()
        ended = follow(
            self.lab.host, bundle=self.lab.bundle, workdir=self.lab.workdir, run=answer.run or "",
            on_log=log.extend, on_event=events.append, on_link=said.append, on_beat=self._beat, silence=self.silence,
        )  # fmt: skip
        run = self.lab.run(answer.run or "")
        self._hold_received(run, bytes(log), events, ended, said)
        return ended

    def _beat(self) -> None:
        if time.monotonic() > self._until:
            raise Overdue

    def _verified(self) -> bool:
        answer = user_runs.verify(self.lab.host, self.job, bundle=self.lab.bundle, deadline=self.verifying)
        if answer.extra:
            (self.output / "data_999.pt").unlink(missing_ok=True)  # as its message tells the user
        told = answer.total == len(self.samples) == answer.valid and not answer.missing and not answer.damaged
        true = all(sample.stands(self.output) for sample in self.samples)
        self.note(told == true or not told, f"verify says {answer}")
        if answer.damaged:
            self._finished = {}  # what verify condemns is computed again
        return told

    # ---- what must hold ----------------------------------------------------------------------------------------------

    def _hold_received(
        self, run: Run, log: bytes, events: list[dict[str, Any]], ended: Exit | None, said: list[str]
    ) -> None:
        host = Path(run.log).read_bytes() if Path(run.log).exists() else b""
        if ended is None:  # lost: what the run left behind may have gone on talking
            self.note(host.startswith(log), f"the log of the lost run {run.id} is not what was received")
            self.note(any("is lost" in one for one in said), f"no end of {run.id}, and nobody said why: {said}")
        else:
            self.note(host == log, f"received {len(log)} bytes of the log of {run.id}, there are {len(host)}")
            self.note(ended == runs.look(run).exit, f"the end of {run.id} is not what the host says: {ended}")
            self.note(ended.left_running == (), f"{run.id} left running: {ended.left_running}")
            wished = ended.phase != "stopped" or any(fault.name == "stop" for fault in self.plan)
            self.note(wished, f"{run.id} was stopped, and nobody wished for it")
            self.note((ended.phase == "done") == (ended.code == 0), f"{run.id} is {ended.phase} with {ended.code}")
        numbers = [event.get("n") for event in events]
        self.note(numbers == list(range(1, len(numbers) + 1)), f"events of {run.id} are numbered {numbers}")
        if ended is not None and ended.phase == "done":
            whole = Samples(total=len(self.samples), done=len(self.samples))
            self.note(ended.samples == whole, f"{run.id} is done with {ended.samples}")
            self.note(events[-1:] != [] and events[-1]["event"] == "ended", f"last event: {events[-1:]}")

    def _remember(self) -> None:
        """Hold that what was finished before was not computed again; remember what is finished now."""
        now = {sample.index: identity for sample in self.samples if (identity := self._identity(sample))}
        again = sorted(index for index, before in self._finished.items() if now.get(index) not in (before, None))
        lost = sorted(self._finished.keys() - now.keys())
        self.note(not again, f"samples that stood were computed again: {again}")
        self.note(not lost, f"samples that stood are gone: {lost}")
        self._finished = now

    def _forget_damaged(self, *, all_of_them: bool) -> None:
        recorded = set() if all_of_them else self.recorded()
        self._finished = {
            sample.index: self._finished[sample.index]
            for sample in self.samples
            if sample.index in self._finished and sample.index in recorded
            and self._identity(sample) == self._finished[sample.index]
        }  # fmt: skip

    def _identity(self, sample: pretend.Sample) -> tuple[int, int] | None:
        if sample.index not in self.recorded() or not sample.stands(self.output):
            return None
        found = (self.output / f"data_{sample.index}.pt").stat()
        return found.st_ino, found.st_mtime_ns

    def recorded(self) -> set[int]:
        """Give the samples that have a line in the manifest."""
        found = set()
        with contextlib.suppress(FileNotFoundError):
            for line in (self.output / "manifest.jsonl").read_bytes().splitlines():
                with contextlib.suppress(ValueError, KeyError, TypeError):
                    found.add(json.loads(line)["index"])
        return found

    def _hold(self) -> None:
        self._remember()
        self.faults_seen += self.complaints()
        for received in self._doomed:
            self._hold_doomed(received)
        for run in runs.folders(self.lab.workdir):
            self._hold_ended(run)
        until = time.monotonic() + PATIENCE / 2
        while (left := who.at_home(self.home, str(self.disk))) and time.monotonic() < until:
            time.sleep(0.05)
        self.note(not left, f"left running: {left}")
        folders = sorted(path.name for path in self.sockets.glob(f"{sockets.PREFIX}*"))
        self.note(not folders, f"folders of sockets left behind: {folders}")

    def _hold_doomed(self, received: Path) -> None:
        logs = [Path(run.log).read_bytes() for run in runs.folders(self.lab.workdir) if Path(run.log).exists()]
        data = received.read_bytes() if received.exists() else b""
        self.note(any(log.startswith(data) for log in [b"", *logs]), "a killed controller had received what is no log")

    def _hold_ended(self, run: Run) -> None:
        if runs.look(run).active and runs.look(run).state:
            self.lab.ended(run)  # a second start that came when the first run had just ended
        snapshot = runs.look(run)
        self.note(snapshot.faults == (), f"{run.id}: {snapshot.faults}")
        self.note(processes.of_run(run) == [], f"processes of {run.id}: {processes.of_run(run)}")
        told = status.describe(snapshot, now=time.time())
        fresh = not Path(run.job).exists()  # its launch was killed a moment ago, before it had said what it starts
        self.note(fresh or told.phase in ("done", "failed", "stopped", "lost"), f"status of {run.id}: {told.phase}")
        if snapshot.exit is not None and snapshot.state is not None:
            true = snapshot.state.phase == snapshot.exit.phase or snapshot.exit.code == 128 + signal.SIGKILL
            self.note(true, f"{run.id}: state {snapshot.state.phase}, exit {snapshot.exit.phase}")
        for path in Path(run.root).iterdir():
            self.note(SECRET.encode() not in path.read_bytes(), f"the secret is in {run.id}/{path.name}")
