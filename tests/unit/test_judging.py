"""What the end of an attempt is taken for, from facts alone."""

from __future__ import annotations

import dataclasses
from pathlib import Path, PurePosixPath

import pytest

from remote.paths import Run
from remote.run import batch
from remote.run.judging import Ended, Judge, Result
from remote.run.ledger import Ledger
from remote.schema import Job, Retry, Samples

MEMORY = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB"
TRITON = "FileNotFoundError: [Errno 2] No such file or directory: '/root/.triton/cache/ab/_fwd.json.tmp.pid_7'"
ROOM = "no space left on the file system of /data"


@dataclasses.dataclass
class Court:
    """A judge with what it is told."""

    judge: Judge
    ledger: Ledger
    run: Run
    job: Job
    asked: list[str] = dataclasses.field(default_factory=list)

    def over(self, log: str = "", no_room: str | None = None, **facts: object) -> Result:
        ended = dataclasses.replace(Ended(code=1), **facts)  # type: ignore[arg-type] # the fields of Ended

        def said() -> str:
            self.asked.append("log")
            return log

        def room() -> str | None:
            self.asked.append("room")
            return no_room

        return self.judge.judge(ended, said, room)

    def cause(self, *arguments: str, **facts: object) -> tuple[str, str]:
        """Give kind and cause of the failure."""
        failure = self.over(*arguments, **facts).failure  # type: ignore[arg-type]
        assert failure is not None
        return failure.kind, failure.cause

    def extracting(self, done: int) -> None:
        samples = Samples(total=9, done=done)
        self.ledger.state = dataclasses.replace(self.ledger.state, phase="extracting", samples=samples)


@pytest.fixture
def court(tmp_path: Path) -> Court:
    job = Job(
        name="j", engine="speculators", python="/p", workdir="/w", output="/o", model="/m", dataset="/d",
        batch_size=8, retry=Retry(transient=2, max_failed_samples=3),
    )  # fmt: skip
    run = Run(PurePosixPath(tmp_path))
    ledger = Ledger(run, job.output)
    return Court(Judge(run, job, ledger), ledger, run, job)


@pytest.mark.parametrize(
    ("facts", "result"),
    [
        ({"code": 0}, Result("done", 0)),
        ({"code": 0, "stopped": True, "left": (7,)}, Result("done", 0)),
        ({"code": 143, "stopped": True}, Result("stopped", 143)),
        ({"code": 137, "stopped": True, "full": ROOM, "hang": "h"}, Result("stopped", 137)),
    ],
)
def test_what_is_done_or_was_wished_for_is_no_failure(
    court: Court, facts: dict[str, object], result: Result
) -> None:  # fmt: skip
    assert court.over(**facts) == result  # type: ignore[arg-type]
    assert court.asked == []


@pytest.mark.parametrize(
    ("facts", "kind", "cause"),
    [
        ({"left": (1 << 30,), "full": ROOM, "hang": "h"}, "node-fatal", "cannot-be-ended"),
        ({"full": ROOM, "hang": "h"}, "fatal", "disk-full"),
        ({"hang": "no sample", "code": 10}, "transient", "hang"),
        ({"code": 10}, "fatal", "samples-failed"),
        ({"code": 11}, "fatal", "too-many-failed"),
    ],
)
def test_what_the_supervisor_knows_by_itself_comes_first_and_asks_no_log(
    court: Court, facts: dict[str, object], kind: str, cause: str
) -> None:
    assert court.cause(MEMORY, **facts) == (kind, cause)
    assert court.asked == []


def test_a_full_disk_explains_what_nothing_else_does(court: Court) -> None:
    assert court.cause("it broke", ROOM) == ("fatal", "disk-full")
    assert court.cause("ModuleNotFoundError: No module named 'x'", ROOM)[1] != "disk-full"


def test_a_batch_without_memory_is_halved_and_costs_no_budget(court: Court) -> None:
    court.extracting(1)
    assert court.over(MEMORY, held=(1, 2)).failure is not None
    assert batch.size(court.run, court.job) == 4
    failure = court.over(MEMORY, held=(1, 2)).failure
    assert failure is not None
    assert (failure.kind, failure.mended, batch.size(court.run, court.job)) == ("transient", True, 2)


@pytest.mark.parametrize(("held", "phase"), [((3,), "extracting"), ((), "loading")])
def test_one_sample_or_a_load_cannot_be_halved(court: Court, held: tuple[int, ...], phase: str) -> None:
    court.extracting(1)
    court.ledger.state = dataclasses.replace(court.ledger.state, phase=phase)
    court.over(MEMORY, held=held)
    assert batch.size(court.run, court.job) == 8


def test_a_race_in_a_shared_cache_leads_the_next_attempt_elsewhere(court: Court) -> None:
    assert court.judge.own_places == {}
    assert court.cause(TRITON) == ("transient", "triton-cache-race")
    assert court.judge.own_places == {"TRITON_CACHE_DIR": str(court.run.root / "triton")}


def test_budgets_end_unless_there_is_progress(court: Court) -> None:
    def again() -> bool:
        failure = court.over("RuntimeError: Address already in use").failure
        assert failure is not None
        assert failure.kind == "transient"
        return court.judge.allows(failure)

    assert [again(), again(), again()] == [True, True, False]
    court.extracting(2)
    assert (again(), court.judge.further) == (True, True)
    assert (again(), court.judge.further) == (True, False)
