"""Role `verify-child`: request on stdin, answer on the pipe. Reads every sample file once, tokenises the dataset once.

A file is valid when its line in the manifest tells its size and hash, and its tokens, mask, shape, type and values are
what the dataset and the job want. A file's hash and content are read in the same pass over the folder. A file of the
right size that is damaged all the same gets a line in the manifest that says so: the next `extract` goes by the
manifest, and computes it again.
"""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from remote import children, leash, ranges, verify, wire
from remote.engines import base
from remote.model import model_print
from remote.paths import Output
from remote.prompts import tokens
from remote.prompts.dataset import DatasetError
from remote.prompts.shard import Shard
from remote.results import manifest, outputs, samples
from remote.schema import Finding, VerifyAnswer, VerifyRequest

if TYPE_CHECKING:
    from collections.abc import Iterable

    from remote.prompts.tokens import Tokens
    from remote.schema import Job, ManifestEntry

MOST_FINDINGS = 50
REMEDY = "run extract again: it recomputes only this sample"


def main(arguments: list[str]) -> int:
    """Answer the request on stdin; gives the exit code."""
    del arguments
    leash.hold()
    request = wire.loads(VerifyRequest, sys.stdin.buffer.read(), "verify-child")
    children.reply(verified(request.job, request.shard))
    return 0


def verified(job: Job, shard: str | None = None) -> VerifyAnswer:
    """Hold the job's dataset (or a shard of it) against its output folder."""
    try:
        part = None if shard is None else Shard(ranges.parse(shard), job.dataset)
        wanted = tokens.tokenise(job, base.make(job).longest, part.samples if part else None)
        return _Verification(job, part).answer(wanted)
    except ranges.RangeError as error:
        return verify.unverified("shard", f"the shard is none: {error}")
    except DatasetError as error:
        return verify.unverified("dataset", f"{error}; nothing can be held against it")
    except base.EngineError as error:
        return verify.unverified("engine", f"{error}: its outputs have no form that is known here")


class _Verification:
    """Counts and findings over one output folder."""

    def __init__(self, job: Job, shard: Shard | None) -> None:
        self._job = job
        self._whole = shard.whole if shard else 0
        self._output = Output(PurePosixPath(job.output))
        exists = Path(job.output).is_dir()
        self._sizes = outputs.sample_sizes(self._output) if exists else {}
        self._entries = outputs.read_manifest(self._output)
        self._model = model_print.fingerprint(job.model)
        self._shapes: set[tuple[int, int, str]] = set()
        self._bad: list[int] = []
        self._damaged: list[Finding] = []
        self._missing: list[Finding] = []
        self._extra: list[Finding] = []

    def answer(self, wanted: Iterable[Tokens]) -> VerifyAnswer:
        total = count = size = 0
        valid: list[int] = []
        unknown = {index for index in self._sizes if index >= self._whole}  # a shard says nothing of the others' files
        naming = tokens.Naming()
        for sample in wanted:
            total += 1
            naming.add(sample)
            unknown.discard(sample.index)
            if sample.index not in self._sizes:
                self._miss(sample)
            elif problem := self._problem(sample):
                self._damage(sample.index, problem)
                self._condemn(sample, problem)
            else:
                valid.append(sample.index)
                count += len(sample)
                size += self._sizes[sample.index]
        self._strangers(unknown)
        found = (*self._damaged, *self._missing, *self._extra)
        return VerifyAnswer(
            total=total,
            valid=len(valid),
            missing=len(self._missing),
            damaged=len(self._damaged),
            extra=len(self._extra),
            tokens=count,
            size=size,
            findings=found[:MOST_FINDINGS],
            whole=self._whole or total,
            ranges=ranges.tell(valid),
            damaged_ranges=ranges.tell(self._bad),
            dataset="" if self._whole else naming.name,
            model=self._model,
        )

    def _problem(self, sample: Tokens) -> str | None:
        """Say what is wrong with a file that is there; the cheap looks first."""
        entry, path = self._entries.get(sample.index), str(self._output.sample(sample.index))
        if entry is None:
            return "has no line in the manifest"
        if problem := self._unfit(entry):
            return problem
        try:
            if outputs.sha256_of(path) != entry.sha256:
                return "has not the SHA-256 that the manifest says: its bytes have changed"
            document = samples.load(path)
            return samples.problem_with(document, sample, self._job.layers) or self._odd_one(document, entry)
        except (samples.SampleInvalid, OSError, AttributeError, TypeError, ValueError) as error:
            return str(error)

    def _unfit(self, entry: ManifestEntry) -> str | None:
        """Say what the manifest itself says against a file."""
        if entry.size != self._sizes[entry.index]:
            return f"is {self._sizes[entry.index]} bytes, the manifest says {entry.size}"
        if self._job.layers and entry.layers and entry.layers != self._job.layers:
            return f"holds layers {list(entry.layers)}, the job wants {list(self._job.layers)}"
        if self._model and entry.model not in {"", self._model}:
            return "was computed by another model"
        return None

    def _condemn(self, sample: Tokens, problem: str) -> None:
        """Leave the word on which the next start computes a sample again that it would take for sound."""
        entry = self._entries.get(sample.index)
        if not outputs.stands(entry, sample, self._sizes[sample.index], self._job.layers) or entry is None:
            return
        if self._unfit(entry):
            return  # whole, only not this model's: the next start refuses to mix them
        with contextlib.suppress(OSError):
            manifest.condemn(self._output, entry, problem)

    def _odd_one(self, document: dict[str, list[object]], entry: ManifestEntry) -> str | None:
        """Say in what a sound file is unlike its line in the manifest, or unlike the first sound file."""
        states = document["hidden_states"]
        shape, kind = (len(states), *states[0].shape), str(states[0].dtype).removeprefix("torch.")  # type: ignore[attr-defined]
        if shape != entry.shape or kind != entry.dtype:
            return f"holds {shape} {kind}, the manifest says {entry.shape} {entry.dtype}"
        self._shapes = self._shapes or {(shape[0], shape[-1], kind)}
        if (shape[0], shape[-1], kind) not in self._shapes:
            layers, hidden, first = next(iter(self._shapes))
            return f"holds {shape[0]} × {shape[-1]} {kind} where others hold {layers} × {hidden} {first}"
        return None

    def _miss(self, sample: Tokens) -> None:
        why = f" ({sample.where}: {sample.problem})" if sample.problem else ""
        name = self._output.sample(sample.index).name
        self._missing.append(self._finding("sample-missing", f"{name} is missing{why}; {REMEDY}", sample.index))

    def _damage(self, index: int, problem: str) -> None:
        self._bad.append(index)
        name = self._output.sample(index).name
        self._damaged.append(self._finding("sample-damaged", f"{name} {problem}; {REMEDY}", index))

    def _strangers(self, unknown: set[int]) -> None:
        """Find what the trainer would take for samples too: every other name that ends in `pt`."""
        known = {self._output.sample(index).name for index in self._sizes.keys() - unknown}
        for folder, _, names in os.walk(self._job.output):
            for name in sorted(names):
                if name.endswith("pt") and not (name in known and folder.rstrip("/") == self._job.output.rstrip("/")):
                    message = f"{name} is not of this dataset, and the trainer would take it for a sample; move it away"
                    self._extra.append(
                        Finding(rule="sample-extra", message=message, file=f"{folder}/{name}", severity="warning")
                    )

    def _finding(self, rule: str, message: str, index: int) -> Finding:
        return Finding(rule=rule, message=message, file=str(self._output.sample(index)))
