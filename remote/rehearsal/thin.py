"""The second part of a rehearsal: the target at its real sizes, with few layers and weights that vLLM makes up.

What comes with size shows here: kernels chosen by shape, heads and experts that no kernel takes, memory at the job's
largest batch. What is computed was compared on the tiny model; of made-up weights only the form of the states is held.
"""

from __future__ import annotations

import gc
import resource
import subprocess
import sys
import tempfile
import time
import traceback
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from remote.engines import base
from remote.engines.base import EngineError
from remote.model.model_config import TEXT_KEYS
from remote.paths import Workdir
from remote.rehearsal import blame, precision, prompts, reports, tiny, weigh
from remote.rehearsal.cut import Thin, cut, fewer_experts
from remote.rehearsal.said import Said
from remote.rehearsal.shrink import CannotShrink
from remote.run import batch

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from remote.engines.base import Engine
    from remote.rehearsal.stage import Rehearsal
    from remote.schema import Finding, Job

SHARE = 0.6  # of the memory that is free, for weights: the KV cache and the batch need the rest
# This process holds some hundred megabytes of the first card since the tiny model; a worker wants its part free.
MOST_FRACTION = 0.9
ASKING = 120.0
ASKS = "import sys, torch; print(min(torch.cuda.mem_get_info(card)[0] for card in range(int(sys.argv[1]))))"
WEAK = "`gate.thin = false` in the job leaves this part of the rehearsal out"


@dataclass(frozen=True, kw_only=True, slots=True)
class Ready:
    """A thin model that fits, as a folder, and the job that rehearses on it."""

    thin: Thin
    job: Job
    dtype: str
    expected: str | None  # the type of its states, where it is known beforehand


def follow(rehearsal: Rehearsal, target: Mapping[str, Any]) -> None:
    """Rehearse a job once more at the target's real sizes, or note why not."""
    facts: dict[str, Any] = {}
    rehearsal.facts["thin"] = facts
    began = time.monotonic()
    if (reason := not_wanted(rehearsal.job)) is not None:
        facts["skipped"] = reason
        return
    try:
        ready = _ready(rehearsal.job, target, facts)
    except CannotShrink as error:
        facts["impossible"] = str(error)
        return
    except Exception as error:  # noqa: BLE001 - of ours: the tiny model has passed, and the job may well run
        traceback.print_exception(error)
        facts["impossible"] = f"a fault of the gate itself: {type(error).__name__}: {error}"
        rehearsal.findings.append(replace(reports.fault(error), rule="rehearsal-thin-fault", severity="warning"))
        return
    _rehearse(rehearsal, ready, facts)
    facts["seconds"] = round(time.monotonic() - began, 3)


def not_wanted(job: Job) -> str | None:
    """Say why there is no thin rehearsal of this job, None where there is one."""
    if job.gate.thin is False:
        return "the job says `gate.thin = false`"
    if job.device != "cuda" and not job.gate.thin:
        return f"the job computes on the {job.device.upper()}; `gate.thin = true` asks for it there as well"
    if not precision.can_be_told(job):
        return "the engine cannot be told to make up weights: it has no method of its own that makes its configuration"
    return None


def fitting(target: Mapping[str, Any], job: Job, dtype: str, free: int) -> Thin:
    """Give the thin model that so much free memory of each worker holds; raises CannotShrink."""
    thin = cut(target, job)
    if weigh.each(thin, job.tensor_parallel, dtype) <= free * SHARE:
        return thin
    for count in fewer_experts(thin):
        fewer = cut(target, job, experts=count)
        if weigh.each(fewer, job.tensor_parallel, dtype) <= free * SHARE:
            return fewer
    needed = weigh.each(thin, job.tensor_parallel, dtype) / 1e9
    raise CannotShrink(
        f"{len(thin.kept)} layers of the target take about {needed:.1f} GB on each worker while they are loaded; "
        f"{free / 1e9:.1f} GB are free, of which {SHARE:.0%} may be weights"
    )


def _ready(job: Job, target: Mapping[str, Any], facts: dict[str, Any]) -> Ready:
    text: Mapping[str, Any] = next((target[key] for key in TEXT_KEYS if isinstance(target.get(key), dict)), target)
    stated = next((place[name] for place in (target, text) for name in ("dtype", "torch_dtype") if place.get(name)), "")
    dtype = precision.own(stated)
    free = _free(job)
    thin = fitting(target, job, dtype, free)
    cache = Path(Workdir(PurePosixPath(job.workdir)).cache / "rehearsal")
    folder = tiny.without_weights(thin.config, job.model, cache)
    quantization = thin.quantization
    facts |= {
        "layers_kept": list(thin.kept),
        "hidden": thin.hidden,
        "vocabulary": thin.text.get("vocab_size"),
        "estimated": weigh.each(thin, job.tensor_parallel, dtype),
        "free": free,
    }
    facts |= {"experts": thin.experts} if thin.experts else {}
    facts |= {"quantization": quantization.get("quant_method") or "unnamed"} if quantization else {}
    facts |= {"changed": list(thin.changed)} if thin.changed else {}
    fraction = min(job.memory_fraction, MOST_FRACTION)
    job = replace(job, model=str(folder), layers=thin.layers, memory_fraction=fraction)
    return Ready(thin=thin, job=job, dtype=dtype, expected=dtype if stated == dtype else None)


def _rehearse(rehearsal: Rehearsal, ready: Ready, facts: dict[str, Any]) -> None:
    rehearsal.said = Said()  # what was told of the tiny model is no reason for what happens here
    with tempfile.TemporaryDirectory(prefix="prudent-gate-rehearsal-", dir=rehearsal.scratch) as output:
        job = replace(ready.job, output=output)
        engine = base.make(job)
        try:
            rehearsal.phase("at the target's real sizes, while it was loaded")
            began = time.monotonic()
            with precision.told(ready.dtype, dummy=True):
                engine.load()
            facts["load"] = round(time.monotonic() - began, 3)
            _extract(rehearsal, engine, ready, facts)
        except Exception as error:  # noqa: BLE001 - whatever it is, the job would have met it after its load
            _failed(rehearsal, error, ready, facts)
            error.__traceback__ = None  # its frames hold what is still to be closed
        finally:
            facts["memory"] = _memory(engine)
            rehearsal.phase("while the engine of the real sizes was closed")
            engine.close()
            gc.collect()


def _extract(rehearsal: Rehearsal, engine: Engine, ready: Ready, facts: dict[str, Any]) -> None:
    job, thin = ready.job, ready.thin
    vocabulary = int(thin.text["vocab_size"]) // 2  # special tokens, of pictures for example, stand at its end
    plan = prompts.plan(job, longest=engine.longest, block=reports.BLOCK, vocabulary=vocabulary)
    largest = plan.batches[-1]
    facts |= {"prompts": len(largest) + 1, "tokens": sum(map(len, largest)) + 1}
    facts |= {"capped": plan.capped} if plan.capped else {}
    infinite = 0
    for asked in (((largest[0][0],),), largest):
        rehearsal.phase(f"at the target's real sizes, in a batch of {len(asked)} × {len(asked[0])} tokens")
        began = time.monotonic()
        answers = engine.extract(asked)
        seconds = time.monotonic() - began
        if len(answers) != len(asked):
            raise EngineError(f"{len(asked)} prompts were asked for, {len(answers)} came back")
        for prompt, states in zip(asked, answers, strict=True):
            facts["dtype"] = form(states, len(prompt), thin.hidden, len(engine.layers), ready.expected)
            infinite += not all(_finite(state) for state in states)
    facts |= {"extract": round(seconds, 3), "tokens_per_second": round(sum(map(len, largest)) / seconds)}
    if infinite:
        rehearsal.findings.append(_infinite(infinite, rehearsal))


def form(states: Sequence[Any], tokens: int, hidden: int, layers: int, expected: str | None) -> str:
    """Hold the form of a prompt's states, and give their type; raises EngineError."""
    shapes = [tuple(state.shape) for state in states]
    if shapes != [(tokens, hidden)] * layers:
        raise EngineError(
            f"a prompt of {tokens} tokens came back as {sorted(set(shapes))} of {len(shapes)} layers; "
            f"{layers} of {(tokens, hidden)} were expected"
        )
    types = {str(state.dtype).removeprefix("torch.") for state in states}
    if len(types) != 1 or (expected is not None and types != {expected}):
        raise EngineError(f"hidden states of the type {', '.join(sorted(types))}; {expected or 'one'} was expected")
    return types.pop()


def _failed(rehearsal: Rehearsal, error: Exception, ready: Ready, facts: dict[str, Any]) -> None:
    """Note a failure; one of making weights up is none of the job's."""
    made_up = _while_making_up(error, rehearsal.said.text())
    found = rehearsal.crashed(error)
    if made_up:
        facts["impossible"] = f"vLLM cannot make up weights for it ({found.message})"
        return
    rule = found.rule.replace("rehearsal-", "rehearsal-thin-", 1)
    job, advice = ready.job, ""
    if batch.ran_out(error) or batch.ran_out(RuntimeError(found.message)):
        advice = f". Even {len(ready.thin.kept)} layers leave no room for {job.batch_size} × {job.max_model_len} tokens"
    rehearsal.findings.append(replace(found, rule=rule, message=f"{found.message}{advice}. ({WEAK}.)"))


def _while_making_up(error: Exception, said: str) -> bool:
    traces = [*blame.own(error), *blame.traces(said)]
    return any(frame.file.endswith("/dummy_loader.py") for trace in traces for frame in trace.frames)


def _infinite(count: int, rehearsal: Rehearsal) -> Finding:
    place = reports.entry(rehearsal.modules, rehearsal.overlay)
    message = (
        f"at the target's real sizes {count} prompts came back with values that are not finite. Their weights are made "
        "up (quantized ones are whatever lay in memory), so this may say nothing of the job"
    )
    return replace(place, rule="rehearsal-thin-infinite", severity="warning", message=message)


def _finite(state: Any) -> bool:
    import torch

    return bool(torch.isfinite(state).all())


def _free(job: Job) -> int:
    """Give the memory that is free on the fullest of the job's devices."""
    if job.device == "cuda":
        return _free_on_cards(job.tensor_parallel)
    lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    free = next(line for line in lines if line.startswith("MemAvailable:"))
    return int(free.split()[1]) * 1024 // job.tensor_parallel


def _free_on_cards(workers: int) -> int:
    """Ask in a process of its own: who asks holds some hundred megabytes of every card until it ends."""
    try:
        done = subprocess.run(
            [sys.executable, "-B", "-c", ASKS, str(workers)],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=ASKING,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise CannotShrink(f"the memory of the GPUs cannot be asked for ({error})") from error
    last = done.stdout.split()[-1:]
    if done.returncode or not last or not last[0].isdigit():
        words = done.stderr.strip().splitlines()[-1:] or [f"exit {done.returncode}"]
        raise CannotShrink(f"the memory of the GPUs cannot be asked for ({words[0]})")
    return int(last[0])


def _memory(engine: Engine) -> list[dict[str, int]]:
    """Ask the workers for the most memory that they have used; empty where they cannot answer."""
    executor = getattr(getattr(engine, "_generator", None), "executor", None)
    if executor is None or not engine.alive():
        return []
    try:
        return list(executor.collective_rpc(most_used, timeout=30))
    except Exception:  # noqa: BLE001 - a fact that is not to be had
        return []


def most_used(_worker: object) -> dict[str, int]:
    """Within a worker: give the most bytes it has used."""
    import torch

    used = {"resident": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024}
    if torch.cuda.is_available():
        used |= {"allocated": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.max_memory_reserved()}
    return used
