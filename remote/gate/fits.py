"""Do weights and KV cache fit the memory that there is for them? Arithmetic on facts, no card is asked. Pure.

Always on the generous side: what is refused here cannot work, whatever an engine does. What only just fits may still
run out of memory: context, activations and what a quantization adds are not counted.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from remote.gate.estimate import human
from remote.schema import Finding

if TYPE_CHECKING:
    from collections.abc import Iterator

    from remote.model.model_config import ModelConfig
    from remote.model.model_folder import ModelFolder
    from remote.schema import Job

LOADED = 0.9  # layers that only predict further tokens are not loaded; they take less than a tenth
CPU_CACHE = "VLLM_CPU_KVCACHE_SPACE"
GIB = 1 << 30
BLOCKS = 2 * 16  # tokens of the first and the last block, which are there whole


@dataclass(frozen=True, kw_only=True, slots=True)
class Memory:
    """What there is: bytes of the smallest card (0: unknown), and the part of what is free that becomes KV cache."""

    card: int = 0
    share: float = 1.0


def weights(model: ModelFolder) -> int:
    """Give the bytes that a loader reads, no file counted twice; 0 where that is not certain."""
    shards = set(model.index.values()) if model.index is not None else set(model.headers)
    if (model.index is None and len(shards) != 1) or not shards <= set(model.headers):
        return 0
    whole = [model.headers[shard] for shard in shards]
    return sum(header.data for header in whole) if all(header.whole for header in whole) else 0


def each(job: Job, model: ModelFolder) -> float:
    """Give the bytes of weights on each card at least; 0 where nothing is certain."""
    config = model.config
    if config is None:
        return 0.0
    halved = 2 if config.dtype not in {"bfloat16", "float16"} else 1  # single precision is loaded as half
    return LOADED * weights(model) / halved / job.tensor_parallel


def of_weights(job: Job, model: ModelFolder, memory: Memory) -> Iterator[Finding]:
    """Give the finding about weights that no card of the job's takes."""
    takes = each(job, model)
    if job.device != "cuda" or not memory.card or takes <= memory.card:
        return
    message = (
        f"the weights take about {human(takes)} on each of the {job.tensor_parallel} cards (tensor_parallel), which "
        f"have {human(memory.card)}: memory runs out while they are loaded. Spread them over more cards, or take a "
        "smaller or quantized model."
    )
    yield Finding(rule="weights-too-large", file=model.path, message=message)


def of_cache(job: Job, model: ModelFolder, memory: Memory, longest: int) -> Iterator[Finding]:
    """Give the finding about a prompt of `longest` tokens for which the KV cache can have no room."""
    token = per_token(model.config, job.tensor_parallel) if model.config else None
    room = _room(job, model, memory)
    none = job.device == "cpu" and room == 0  # not even for a block
    if token is None or room is None or ((longest - BLOCKS) * token <= room and not none):
        return
    remedy = (
        f"Give more GiB in {CPU_CACHE}"
        if job.device == "cpu"
        else "Raise `tensor_parallel` or `memory_fraction`, take cards with more memory"
    )
    message = (
        f"the longest prompt has {longest:,} tokens and takes {human(longest * token)} of KV cache, for which there "
        f"are at most {human(room)}: vLLM would never schedule it. {remedy}, or lower `max_model_len`."
    )
    yield Finding(rule="cache-too-small", file=job.dataset, message=message)


def per_token(config: ModelConfig, width: int) -> int | None:
    """Give the bytes of KV cache that a token takes on each card, at least; None where the kinds of layers differ."""
    if config.layers is None or not config.cached_alike:
        return None
    if config.latent is not None:
        return config.layers * config.latent * config.cache_value
    if config.kv_heads is None or config.head_dim is None:
        return None
    return config.layers * 2 * max(config.kv_heads // width, 1) * config.head_dim * config.cache_value


def _room(job: Job, model: ModelFolder, memory: Memory) -> float | None:
    """Give the most bytes that the KV cache can have; None where nothing tells."""
    if job.device == "cpu":
        said = job.env.get(CPU_CACHE, "").strip()
        return max(int(said), 0) * GIB if said.removeprefix("-").isdecimal() else None  # nothing said is half of it all
    if not memory.card:
        return None
    return max(memory.card - each(job, model), 0.0) * job.memory_fraction * memory.share
