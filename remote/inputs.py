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

from remote import dataset, estimate, lengths, model_checks, model_folder, tokenizer_check
from remote.disk import disk
from remote.engines import base
from remote.estimate import Room
from remote.rates import measured
from remote.schema import Check, Finding

if TYPE_CHECKING:
    from collections.abc import Iterable

    from remote.estimate import Rates
    from remote.lengths import Lengths
    from remote.model_folder import ModelFolder
    from remote.schema import Job

DEFAULT_LAYERS = 4  # what speculators chooses where a job names none
BUDGET = 20.0
_LINE = re.compile(r":(\d+):")


@dataclass(frozen=True, kw_only=True, slots=True)
class Dataset:
    """A dataset at first sight: `error` where it cannot be used at all."""

    conversations: bool = False
    samples: int = 0
    error: str | None = None


def check(job: Job, *, rates: Rates | None = None, usd_per_hour: float | None = None, budget: float = BUDGET) -> Check:
    """Judge model, dataset and room of a job; tokenises for at most about `budget` seconds."""
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
        facts["model"] = _model_facts(model)
    if data is not None:
        facts["dataset"] = {"path": job.dataset, "samples": data.samples, "conversations": data.conversations}
        findings += dataset_findings(job.dataset, data)
    if model is not None and data is not None and not any(finding.severity == "error" for finding in findings):
        seen, about = _tokenised(job, model, data, budget, facts)
        findings += about
        if seen is not None:
            findings += _planned(job, model, data, seen, rates=rates, usd_per_hour=usd_per_hour, facts=facts)
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


def space_findings(planned: estimate.Output, room: Room, output: str) -> tuple[Finding, ...]:
    """Give the findings about an output that does not fit, or only just."""
    found = []
    for short in estimate.shortages(planned, room):
        shown = estimate.human if short.what == "bytes" else "{:,} inodes".format
        message = (
            f"the output needs about {shown(short.needed)} more ({planned.samples:,} samples, {planned.tokens:,} "
            f"tokens), and its file system has {shown(short.free)} free. "
            + ("That is tight." if short.tight else "Choose another `output`, fewer layers or samples, or make room.")
        )
        found.append(
            Finding(rule="output-space", file=output, message=message, severity="warning" if short.tight else "error")
        )
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
    from remote import tokens

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
) -> tuple[Finding, ...]:
    """Estimate output, time and cost into the facts; give the findings about space."""
    config = model.config
    if config is None or config.hidden is None or not seen.lengths:
        return ()
    samples = len(seen.lengths) if seen.complete else max(data.samples, len(seen.lengths))
    planned = estimate.output(
        samples=samples,
        tokens=round(seen.tokens * samples / len(seen.lengths)),
        longest=max(seen.lengths),
        layers=len(set(job.layers)) or DEFAULT_LAYERS,
        hidden=config.hidden,
        dtype_size=config.dtype_size,
    )
    room = room_of(job.output)
    facts["output"] = {**asdict(planned), **asdict(room)}
    facts["time"] = asdict(
        estimate.duration(
            weights=model.weights,
            tokens=planned.tokens,
            rates=rates or measured(job, model.weights),
            usd_per_hour=usd_per_hour,
        )
    )
    return space_findings(planned, room, job.output)
