"""What a rehearsal says: its findings and facts, in words. The sources are looked at only to name a line."""

from __future__ import annotations

import ast
import importlib
import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from remote.code import imports, variables
from remote.engines.base import EngineError
from remote.rehearsal import blame, compare, prompts
from remote.schema import Finding

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from remote.engines.base import Engine
    from remote.rehearsal.blame import Frame
    from remote.rehearsal.compare import Bounds, Error, Wrong
    from remote.rehearsal.prompts import Plan
    from remote.rehearsal.shrink import Tiny
    from remote.schema import Job

BLOCK = 16
SHOWN = 3
LAST = 300  # characters of what was said last
SHARED_LEAST = 8 << 20  # bytes in /dev/shm below which a worker that died is likely to have died of it


def block_size(modules: Sequence[str]) -> int:
    """Give the KV cache's block size as the gated modules have it."""
    found = (getattr(importlib.import_module(name), "VLLM_BLOCK_SIZE", None) for name in modules)
    return next((value for value in found if type(value) is int and value > 1), BLOCK)


def entry(modules: Sequence[str], overlay: str) -> Finding:
    """Give a finding at the function that hands out hidden states, for what no traceback places."""
    for name in modules:
        file = imports.origin(name)
        for node in ast.walk(ast.parse(Path(file).read_text("utf-8"))) if file else ():
            if isinstance(node, ast.FunctionDef) and node.name == "generate":
                text = blame.Frame(file or "", node.lineno).text
                return Finding(
                    rule="", message="", file=imports.shown(file or "", overlay), line=node.lineno, text=text
                )
    return Finding(rule="", message="")


def shared_memory_left(folder: str = "/dev/shm") -> str:  # noqa: S108 - the place itself
    """Say so where shared memory is used up: whoever touches a page of it that has no room dies of a bus error."""
    try:
        found = os.statvfs(folder)
    except OSError:
        return ""
    free = found.f_bavail * found.f_frsize
    return f", and {folder} has {free >> 10} KiB free: a bus error, most likely" if free < SHARED_LEAST else ""


def hangs(stack: list[Frame], modules: Collection[str], overlay: str, *, during: str, most: float) -> Finding:
    """Say where it stands that has taken all of its time."""
    file, frame = blame.stack(stack, modules, overlay)
    last = stack[-1] if stack else None
    where = f", in {imports.shown(last.file, overlay)}:{last.line}" if last and last != frame else ""
    return Finding(
        rule="rehearsal-timeout",
        message=f"no end within {most:g} s: it hangs {during}{where}",
        file=file,
        line=frame.line if frame else None,
        text=frame.text if frame else None,
    )


def silent(finding: Finding, said: str, job: Job) -> Finding:
    """Add what was said last before the silence, and which variables of the job's it speaks of."""
    last = next((line for line in reversed(said.splitlines()) if line.strip()), "")[:LAST].strip()
    if not last:
        return finding
    return replace(finding, message=f"{finding.message}; last said: {last}{variables.told(last, job.env)}")


def fault(error: Exception) -> Finding:
    """Say that the rehearsal itself is broken: what it did not see is not proven."""
    frame = blame.own(error)[0].frames[-1:]
    return Finding(
        rule="rehearsal-fault",
        message=f"the job could not be rehearsed: {type(error).__name__}: {error}. This is a fault of the gate itself",
        file=frame[0].file if frame else None,
        line=frame[0].line if frame else None,
        text=frame[0].text if frame else None,
    )


def impossible(error: Exception, model: str) -> Finding:
    """Say that there is no tiny model to rehearse on: nothing is known of the job then."""
    return Finding(
        rule="rehearsal-no-model",
        severity="warning",
        file=str(Path(model) / "config.json"),
        message=f"there is no tiny model to rehearse this job on: {error}. What only a rehearsal can see (behaviour, "
        "wrong rows, a crash after the load) is unknown for this job",
    )


def no_reference(error: Exception) -> Finding:
    """Say that the states could not be compared."""
    return Finding(
        rule="rehearsal-no-reference",
        severity="warning",
        message="the job ran on the tiny model, but Transformers does not compute it: whether the hidden states are "
        f"right is unknown ({type(error).__name__}: {error})",
    )


def refused(findings: list[Finding], engine: Engine, plan: Plan, modules: Sequence[str], overlay: str) -> None:
    """See that a prompt beyond the longest is refused, or comes back whole: cut is what it must not be."""
    asked = len(plan.too_long)
    try:
        (states,) = engine.extract([plan.too_long])
    except EngineError:
        return
    if any(len(state) != asked for state in states):
        place = entry(modules, overlay)
        message = f"a prompt of {asked} tokens, more than the longest that is allowed, came back cut and without a word"
        findings.append(
            Finding(rule="rehearsal-cut", message=message, file=place.file, line=place.line, text=place.text)
        )


def wrong(found: list[Wrong], plan: Plan, small: Tiny, modules: Sequence[str], overlay: str) -> Finding:
    """Say which hidden states are not the prompt's own."""
    place, asked = entry(modules, overlay), plan.prompts
    together = len(asked) - len(plan.in_parts)
    lines = [
        f"prompt {one.prompt} ({len(asked[one.prompt])} tokens"
        f"{', in a batch of several steps' if one.prompt >= together else ''}), layer {small.kept[one.layer]}: "
        f"{_seems(one.seems, small)}{_size(one.error)}"
        for one in found[:SHOWN]
    ]
    rows = len({one.prompt for one in found})
    more = f"; and {len(found) - SHOWN} more" if len(found) > SHOWN else ""
    message = (
        f"hidden states of {rows} of {len(asked)} prompts are not what Transformers computes: {'; '.join(lines)}{more}"
    )
    return Finding(rule="rehearsal-wrong-states", message=message, file=place.file, line=place.line, text=place.text)


def _seems(words: str, small: Tiny) -> str:
    """Name layers as the job does."""
    head, _, number = words.rpartition("that of layer ")
    return f"{head}that of layer {small.kept[int(number)]}" if head and number.isdigit() else words


def _size(error: Error | None) -> str:
    return (
        f" (relative error {error.worst:.2g} at token {error.token}, {error.median:.2g} in the middle)" if error else ""
    )


def model_facts(small: Tiny, job: Job, dtype: str) -> dict[str, Any]:
    """Give the facts about the tiny model."""
    facts: dict[str, Any] = {
        "architecture": small.architecture,
        "dtype": dtype,
        "tensor_parallel": job.tensor_parallel,
        "layers": {str(layer): small.layers[index] for index, layer in enumerate(job.layers)},
        "layers_kept": list(small.kept),
        "hidden": small.config.get("hidden_size") or small.config.get("n_embd"),
    }
    if small.text_key:
        facts["text_only"] = small.text_key
    if small.quantized:
        facts["not_rehearsed"] = "the target's quantization"
    return facts


def plan_facts(plan: Plan) -> dict[str, Any]:
    """Give the facts about the prompts."""
    facts: dict[str, Any] = {
        "prompts": len(plan.prompts),
        "calls": len(plan.batches) + bool(plan.in_parts),
        "tokens": sum(map(len, plan.prompts)),
        "tokens_compared": sum(plan.compared),
        "lengths": prompts.lengths(plan.prompts),
    }
    return {**facts, "capped": plan.capped} if plan.capped else facts


def error_facts(errors: Mapping[int, Sequence[Error]], limit: Bounds, small: Tiny) -> dict[str, Any]:
    """Give the worst errors by the target's layers."""
    seen = {str(small.kept[layer]): compare.worst(found) for layer, found in errors.items()}
    return {
        "errors": {
            layer: {"worst": float(f"{one[0]:.3g}"), "median": float(f"{one[1]:.3g}")} for layer, one in seen.items()
        },
        "bounds": {"worst": limit.worst, "median": limit.median},
    }
