"""Level `inputs`: model whole, dataset parsed and fitting, room for the output, and what time and money it takes.

`check` runs in the job's Python (it tokenises); everything else is findings from facts.
"""

from __future__ import annotations

import os
import re
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from remote.engines import base
from remote.gate import estimate, filelimit, fits, lengths, maplimit, ring, tokenizer_check
from remote.gate.estimate import Room
from remote.gate.fits import Memory
from remote.gate.rates import measured
from remote.host.disk import disk, shm_free
from remote.model import model_checks, model_folder
from remote.prompts import dataset
from remote.schema import Check, Finding
from remote.schema.gate import SHARED_SPACE

if TYPE_CHECKING:
    from collections.abc import Iterable

    from remote.gate.estimate import Rates
    from remote.gate.lengths import Lengths
    from remote.model.model_folder import ModelFolder
    from remote.schema import Job

DEFAULT_LAYERS = 4  # what speculators chooses where a job names none
BUDGET = 20.0
UNKNOWN = Memory()
_LINE = re.compile(r":(\d+):")


@dataclass(frozen=True, kw_only=True, slots=True)
class Dataset:
    """A dataset at first sight: `error` where it cannot be used at all."""

    conversations: bool = False
    samples: int = 0
    error: str | None = None


def check(
    job: Job,
    *,
    rates: Rates | None = None,
    usd_per_hour: float | None = None,
    budget: float = BUDGET,
    sharers: int = 1,
    memory: Memory = UNKNOWN,
) -> Check:
    """Judge model, dataset and room of a job; tokenises for at most about `budget` seconds.

    `sharers` counts the hosts to which the dataset is dealt: each needs room for its share. `memory` is the cards'.
    """
    began = time.monotonic()
    facts: dict[str, Any] = {}
    findings: list[Finding] = []
    model = model_folder.read(job.model) if job.model else None
    ours = job.engine in base.ENGINES  # a program of the user's own reads its dataset in its own way
    data = look(job.dataset) if job.dataset and ours else None
    if job.dataset and not ours and not Path(job.dataset).exists():
        findings.append(located(job.dataset, f"{job.dataset}: there is no such file"))
    if model is not None:
        findings += model_checks.judge(model, conversations=data is not None and data.conversations)
        if ours:
            findings += fits.of_weights(job, model, memory)
            findings += maplimit.findings(job, model, maplimit.here())
        facts["model"] = _model_facts(model)
    if data is not None:
        facts["dataset"] = {"path": job.dataset, "samples": data.samples, "conversations": data.conversations}
        findings += dataset_findings(job.dataset, data)
    if model is not None and data is not None and not any(finding.severity == "error" for finding in findings):
        seen, about = _tokenised(job, model, data, budget, facts)
        findings += about
        if seen is not None:
            findings += fits.of_cache(job, model, memory, max(seen.lengths, default=0))
            planned = _planned(job, model, data, seen, rates=rates, usd_per_hour=usd_per_hour, facts=facts)
            findings += space_findings(planned, room_of(job.output), job.output, sharers) if planned else ()
            if planned:
                findings += filelimit.findings(planned.largest, filelimit.here(), job.output)
                findings += ring.findings(planned, job.batch_size, shm_free())
    seconds = time.monotonic() - began
    return Check(id="inputs", status=status(findings), seconds=seconds, facts=facts, findings=tuple(findings))


def status(findings: Iterable[Finding]) -> str:
    """Give a level's status from its findings."""
    severities = {finding.severity for finding in findings}
    return "fail" if "error" in severities else "warn" if severities else "pass"


def look(path: str) -> Dataset:
    """Read the first sample and count the others."""
    try:
        first = next(iter(dataset.read(path)))
        return Dataset(conversations=first.conversation is not None, samples=dataset.count(path))
    except dataset.DatasetError as error:
        return Dataset(error=str(error))


def dataset_findings(path: str, data: Dataset) -> tuple[Finding, ...]:
    """Give the findings of a dataset that cannot be read, a line each."""
    if data.error is None:
        return ()
    return tuple(located(path, str(error)) for error in dataset.faults(path)) or (located(path, data.error),)


def located(path: str, message: str) -> Finding:
    """Give the finding of a dataset's error, its line taken from the message."""
    line = _LINE.search(message)
    return Finding(
        rule="dataset-line" if line else "dataset-unreadable",
        file=path,
        line=int(line[1]) if line else None,
        message=f"{message}. Mend it or take it out: a sample has `conversations`, or `input_ids` and `loss_mask`.",
    )


def room_of(output: str) -> Room:
    """Ask the output's own file system, and count the samples that stand there already."""
    space = disk(output)
    held = files = 0
    if Path(output).is_dir():
        with os.scandir(output) as entries:
            for entry in entries:
                if entry.name.endswith(".pt"):
                    files += 1
                    held += entry.stat().st_size
    return Room(free=space.free, inodes_free=space.inodes_free, held=held, files=files)


def space_findings(planned: estimate.Output, room: Room, output: str, sharers: int = 1) -> tuple[Finding, ...]:
    """Give the findings about an output that does not fit, or only just; of several hosts each needs its share."""
    share = estimate.share(planned, sharers)
    too_much = {short.what for short in estimate.shortages(share, room) if not short.tight}
    found = []
    for short in estimate.shortages(planned, room):
        shown = estimate.human if short.what == "bytes" else "{:,} inodes".format
        shared = sharers > 1 and not short.tight and short.what not in too_much
        message = (
            f"the output needs about {shown(short.needed)} more ({planned.samples:,} samples, {planned.tokens:,} "
            f"tokens), and its file system has {shown(short.free)} free. "
        )
        if short.tight:
            message += "That is tight."
        elif shared:
            message += f"There is room for a share of it, dealt to {sharers} hosts, not for all of it."
        else:
            message += "Choose another `output`, fewer layers or samples, or make room."
        rule = SHARED_SPACE if shared else "output-space"
        severity = "warning" if short.tight or shared else "error"
        found.append(Finding(rule=rule, file=output, message=message, severity=severity))
    return tuple(found)


def _model_facts(model: ModelFolder) -> dict[str, Any]:
    facts: dict[str, Any] = {"path": model.path, "weights": model.weights, "files": len(model.files)}
    if model.config is not None:
        facts |= {"architectures": list(model.config.architectures), "layers": model.config.layers}
        facts |= {"hidden": model.config.hidden, "dtype": model.config.dtype}
    return facts


def _tokenised(
    job: Job, model: ModelFolder, data: Dataset, budget: float, facts: dict[str, Any]
) -> tuple[Lengths | None, tuple[Finding, ...]]:
    """Try the tokenizer, then measure the samples; None where they could not be."""
    vocabulary = model.config.vocabulary if model.config else None
    if data.conversations:
        tried = tokenizer_check.attempt(job.model, conversations=True)
        facts["tokenizer"] = {"name": tried.name, "size": tried.size}
        found = tokenizer_check.judge(tried, file=job.model, vocabulary=vocabulary, conversations=True)
        if status(found) == "fail":
            return None, found
    else:
        found = ()
    try:
        seen = lengths.measure(_tokens(job), longest(job), budget=budget)
    except dataset.DatasetError:
        bad = tuple(located(job.dataset, str(error)) for error in dataset.faults(job.dataset))
        return None, (*found, *bad)
    except Exception as error:  # noqa: BLE001 - tokenizer and template bring code of their own
        message = f"the dataset cannot be tokenised: {type(error).__name__}: {error}"
        return None, (*found, Finding(rule="dataset-not-tokenised", file=job.dataset, message=message))
    facts["lengths"] = seen.facts()
    # Samples behind those that there was time to tokenise are parsed all the same.
    behind = () if seen.complete else tuple(located(job.dataset, str(error)) for error in dataset.faults(job.dataset))
    return seen, (*found, *lengths.judge(seen, file=job.dataset), *behind)


def longest(job: Job) -> int:
    """Give the tokens that a prompt may have: the engine's own word, where it has one."""
    return base.make(job).longest if job.engine in base.ENGINES else job.max_model_len


def _tokens(job: Job) -> Iterable[Any]:
    from remote.prompts import tokens

    return tokens.tokenise(job, longest(job) + 1)


def _planned(
    job: Job,
    model: ModelFolder,
    data: Dataset,
    seen: Lengths,
    *,
    rates: Rates | None,
    usd_per_hour: float | None,
    facts: dict[str, Any],
) -> estimate.Output | None:
    """Estimate output, time and cost into the facts; give the output, None where it cannot be known."""
    config = model.config
    if config is None or config.hidden is None or not seen.lengths:
        return None
    samples = len(seen.lengths) if seen.complete else max(data.samples, len(seen.lengths))
    planned = estimate.output(
        samples=samples,
        tokens=round(seen.tokens * samples / len(seen.lengths)),
        longest=max(seen.lengths),
        layers=len(set(job.layers)) or DEFAULT_LAYERS,
        hidden=config.hidden,
        dtype_size=config.dtype_size,
    )
    facts["output"] = {**asdict(planned), **asdict(room_of(job.output))}
    facts["time"] = asdict(
        estimate.duration(
            weights=model.weights,
            tokens=planned.tokens,
            rates=rates or measured(job, model.weights),
            usd_per_hour=usd_per_hour,
            workers=job.tensor_parallel,
            device=job.device,
        )
    )
    return planned
