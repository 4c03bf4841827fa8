"""Level `rehearsal`: the job's own engine code, environment and worker processes on a tiny model of its architecture.

Then, on GPUs, once more on a thin one: the target's real sizes with few layers. Runs in the process that has imported
the job's modules. While the workers start, Transformers computes in a thread of its own what must come out.
"""

from __future__ import annotations

import gc
import json
import resource
import tempfile
import time
import traceback
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from remote.code import variables
from remote.engines import base
from remote.engines.base import EngineError
from remote.engines.defaults import gate_of
from remote.host import exhausted
from remote.paths import Workdir
from remote.rehearsal import (
    blame,
    compare,
    keeping,
    leftovers,
    precision,
    prompts,
    reports,
    shrink,
    squeeze,
    target,
    thin,
    threads,
    tiny,
)
from remote.rehearsal.limit import forget_shared_memory, limit
from remote.rehearsal.reference import Reference
from remote.rehearsal.said import Said
from remote.rehearsal.shrink import CannotShrink
from remote.schema import Check

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from concurrent.futures import Future

    from remote.engines.base import Engine
    from remote.rehearsal.blame import Frame
    from remote.rehearsal.compare import Bounds
    from remote.rehearsal.prompts import Plan
    from remote.rehearsal.shrink import Tiny
    from remote.schema import Finding, Job

LEVEL = "rehearsal"
LIMIT = 900.0
DIED = "died unexpectedly"  # what vLLM says of a worker that ended without an exception


@dataclass(kw_only=True)
class Rehearsal:
    """One rehearsal: what it works on, and what is known so far."""

    job: Job
    modules: tuple[str, ...]
    overlay: str
    scratch: str | None = None
    said: Said = field(default_factory=Said)
    facts: dict[str, Any] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)
    began: float = field(default_factory=time.monotonic)
    during: str = "before the load"

    def check(self, status: str | None = None) -> Check:
        """Give the level's check as it stands."""
        severities = {finding.severity for finding in self.findings}
        decided = status or ("fail" if "error" in severities else "warn" if severities else "pass")
        seconds = round(time.monotonic() - self.began, 3)
        return Check(id=LEVEL, status=decided, seconds=seconds, facts=self.facts, findings=tuple(self.findings))

    def phase(self, name: str) -> None:
        """Say what is being done, for whoever has to tell where it ended."""
        self.during = name

    def crashed(self, error: BaseException) -> Finding:
        """Describe an exception with the line that is to blame."""
        said = self.said.text()
        traceback.print_exception(error)  # after the look at what others have told
        found = blame.finding(error, said, self.modules, self.overlay, during=self.during)
        found = replace(found, message=found.message + variables.told(found.message, self.job.env))
        if DIED in said:
            died = f"A worker process {DIED}: native code ended it{reports.shared_memory_left()}"
            found = replace(found, message=f"{found.message}. {died}{exhausted.told(said)}")
        else:
            found = replace(found, message=found.message + exhausted.told(blame.words(error, found.message)))
        if isinstance(error, EngineError):
            found = replace(reports.entry(self.modules, self.overlay), rule="rehearsal-rows", message=found.message)
        return found


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came out, and the promise of what should have."""

    plan: Plan
    layers: Sequence[int]
    answers: list[list[Any]]
    awaited: Future[tuple[list[list[Any]], float]]


def check(
    job: Job,
    patched: Sequence[str],
    overlay: str,
    *,
    give_up: Callable[[Check], None],
    most: float = LIMIT,
    scratch: str | None = None,
) -> Check:
    """Rehearse a job; `give_up` gets the check, in another thread, when the time is up and must end the process.

    Samples are written below `scratch`, where somebody else tidies up should this process be killed.
    """
    if job.engine not in base.ENGINES:
        reason = f"the engine {job.engine!r} runs a program of yours: only that program can rehearse it"
        return Check(id=LEVEL, status="skip", facts={"reason": reason})
    modules = tuple(dict.fromkeys((*gate_of(job).modules, *patched)))
    rehearsal = Rehearsal(job=job, modules=modules, overlay=overlay, scratch=scratch)

    def time_is_up(stack: list[Frame]) -> None:
        found = reports.hangs(stack, rehearsal.modules, overlay, during=rehearsal.during, most=most)
        rehearsal.findings.append(reports.silent(found, rehearsal.said.text(), rehearsal.job))
        forget_shared_memory()
        give_up(rehearsal.check())

    with limit(most, time_is_up):
        try:
            return _judged(rehearsal)
        except Exception as error:  # noqa: BLE001 - a fault of our own proves nothing, so it must not pass
            traceback.print_exception(error)
            rehearsal.findings.append(reports.fault(error))
            return rehearsal.check()
        finally:
            forget_shared_memory()


def _judged(rehearsal: Rehearsal) -> Check:
    if not _configured(rehearsal):
        return rehearsal.check()
    try:
        config = json.loads((Path(rehearsal.job.model) / "config.json").read_text("utf-8"))
        small = shrink.shrink(config, rehearsal.job)
        dtype = precision.chosen(rehearsal.job, config.get("dtype") or config.get("torch_dtype"))
        cache = Workdir(PurePosixPath(rehearsal.job.workdir)).cache / LEVEL
        folder = tiny.make(small, rehearsal.job.model, Path(cache), dtype=dtype)
    except (CannotShrink, OSError, ValueError) as error:
        rehearsal.findings.append(reports.impossible(error, rehearsal.job.model))
        return rehearsal.check()
    rehearsal.facts |= reports.model_facts(small, rehearsal.job, dtype)
    rehearsal.facts["prepared"] = round(time.monotonic() - rehearsal.began, 3)
    _rehearse(rehearsal, small, folder, dtype)
    if all(finding.severity != "error" for finding in rehearsal.findings):
        thin.follow(rehearsal, config)
    return rehearsal.check()


def _configured(rehearsal: Rehearsal) -> bool:
    """Make the engine's configuration for the target itself; False when that failed, and was noted."""
    rehearsal.phase("while the configuration for the model itself was made")
    try:
        rehearsal.facts["configured"] = target.configure(rehearsal.job)
    except Exception as error:  # noqa: BLE001 - whatever it is, the job would have met it
        rehearsal.findings.append(rehearsal.crashed(error))
        return False
    return True


def _rehearse(rehearsal: Rehearsal, small: Tiny, folder: Path, dtype: str) -> None:
    with tempfile.TemporaryDirectory(prefix="prudent-gate-rehearsal-", dir=rehearsal.scratch) as output:
        job = replace(rehearsal.job, model=str(folder), layers=small.layers, output=output)
        engine = base.make(job)
        block = reports.block_size(rehearsal.modules)
        plan = prompts.plan(job, longest=engine.longest, block=block, vocabulary=small.vocabulary)
        rehearsal.facts |= reports.plan_facts(plan)
        with ThreadPoolExecutor(1, thread_name_prefix="rehearsal-reference") as pool:
            awaited = pool.submit(_reference, folder, plan, threads.taken())
            answers = _answers(rehearsal, engine, plan, job, dtype)
            if answers is not None:
                limits = compare.bounds(dtype, experts=small.experts)
                _compared(rehearsal, small, Outcome(plan, engine.layers, answers, awaited), limits)


def _reference(folder: Path, plan: Plan, usual: int) -> tuple[list[list[Any]], float]:
    began = time.monotonic()
    with threads.computing_with(threads.wanted(plan.compared, usual), usual):
        reference = Reference(folder)
        states = [reference.states(prompt[:part]) for prompt, part in zip(plan.prompts, plan.compared, strict=True)]
    return states, time.monotonic() - began


def _answers(rehearsal: Rehearsal, engine: Engine, plan: Plan, job: Job, dtype: str) -> list[list[Any]] | None:
    """Give the states of all prompts; None when something failed, and was noted."""
    try:
        rehearsal.phase("while the tiny model was loaded")
        began = time.monotonic()
        with precision.told(dtype):
            engine.load()
        rehearsal.facts["load"] = round(time.monotonic() - began, 3)
        return _extracted(rehearsal, engine, plan, job)
    except Exception as error:  # noqa: BLE001 - whatever it is, the job would have met it after its load
        rehearsal.findings.append(rehearsal.crashed(error))
        error.__traceback__ = None  # its frames hold what is still to be closed
        return None
    finally:
        rehearsal.phase("while the engine was closed")
        engine.close()
        gc.collect()
        used = [resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
        rehearsal.facts["memory"] = {"here": used[0] * 1024, "largest_worker": used[1] * 1024}


def _extracted(rehearsal: Rehearsal, engine: Engine, plan: Plan, job: Job) -> list[list[Any]]:
    began, before = time.monotonic(), leftovers.held(engine)
    answers: list[list[Any]] = []
    for number, batch in enumerate(plan.batches, 1):
        lengths = ", ".join(map(str, map(len, batch)))
        rehearsal.phase(f"in batch {number} of {len(plan.batches)} (prompts of {lengths} tokens)")
        answers += keeping.kept(job, batch, engine.extract(batch), engine.layers, first=len(answers))
        if number == 1:
            rehearsal.phase(f"for a prompt of {len(plan.too_long)} tokens, which is too long")
            reports.refused(rehearsal.findings, engine, plan, rehearsal.modules, rehearsal.overlay)
    seconds = time.monotonic() - began
    tokens = sum(len(prompt) for batch in plan.batches for prompt in batch)
    rehearsal.facts |= {"extract": round(seconds, 3), "tokens_per_second": round(tokens / seconds)}
    if left := leftovers.told(before, leftovers.held(engine), len(answers)):
        rehearsal.findings.append(leftovers.finding(left, reports.entry(rehearsal.modules, rehearsal.overlay)))
    return answers + _in_parts(rehearsal, engine, plan)


def _in_parts(rehearsal: Rehearsal, engine: Engine, plan: Plan) -> list[list[Any]]:
    """Try a batch that takes several steps; wrong rows there are errors of the comparison.

    An exception refuses the job only where one of its own calls takes several steps: a prompt longer than a step holds.
    All others are packed so that a step holds them, and where the KV cache is too small for a call, prompts wait whole.
    """
    rehearsal.phase(f"in a batch that takes several steps ({prompts.STEP} tokens each)")
    try:
        with squeeze.steps_of(engine, prompts.STEP) as possible:
            return engine.extract(plan.in_parts) if possible and plan.in_parts else []
    except Exception as error:  # noqa: BLE001 - whatever it is
        found = rehearsal.crashed(error)
        held = squeeze.step_of(engine)
        meets = held is not None and engine.longest > held
        told = (
            f"prompts of up to {engine.longest} tokens are computed in steps of {held}: the job will meet it"
            if meets
            else f"no call of this job takes several steps ({held} tokens each), so it will not meet it"
        )
        rehearsal.findings.append(
            replace(
                found,
                rule="rehearsal-in-parts",
                severity="error" if meets else "warning",
                message=f"{found.message}. {told[0].upper()}{told[1:]}",
            )
        )
        return []


def _compared(rehearsal: Rehearsal, small: Tiny, outcome: Outcome, limits: Bounds) -> None:
    rehearsal.phase("while Transformers computed what should come out")
    try:
        references, seconds = outcome.awaited.result()
    except Exception as error:  # noqa: BLE001 - says nothing of the job
        rehearsal.findings.append(reports.no_reference(error))
        return
    computed = references[: len(outcome.answers)]  # the batch in parts may have none
    answers = [
        [state[:part] for state in states] for states, part in zip(outcome.answers, outcome.plan.compared, strict=False)
    ]
    errors, wrong = compare.hold(answers, computed, outcome.layers, limits)
    rehearsal.facts |= reports.error_facts(errors, limits, small)
    rehearsal.facts["reference"] = round(seconds, 3)
    if wrong:
        found = reports.wrong(wrong, outcome.plan, small, rehearsal.modules, rehearsal.overlay)
        rehearsal.findings.append(found)
