"""From the target's `config.json` to that of a tiny model of the same architecture. Pure; driven by field names alone.

What decides how code behaves is kept: activation, rotary embedding with its scaling, norms, kinds of layers, ratios of
heads, routing. What costs memory is cut: widths, layers, experts, vocabulary. The tensor-parallel width still divides
what it divides.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from remote.model.model_config import TEXT_KEYS
from remote.rehearsal import layers

if TYPE_CHECKING:
    from collections.abc import Mapping

    from remote.schema import Job

HEAD = {"cpu": 32, "cuda": 64}  # the narrowest heads for which there are kernels everywhere
VOCABULARY = 4096
EXPERTS = 8
PER_TOKEN = 2
LATENT = 128  # hidden size with multi-head latent attention, whose own dimensions its kernels prescribe
QUERY_RANK = 128
DROPPED = ("quantization_config", "compression_config", "architectures", "_name_or_path", "transformers_version")


class CannotShrink(ValueError):
    """A configuration of which no tiny one can be derived: the message says why."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Tiny:
    """A tiny model: its configuration, and how the target's layers are found in it.

    `text_key` names the part of a multimodal configuration that it was made of: the text model alone is rehearsed.
    """

    config: dict[str, Any]
    architecture: str | None
    kept: tuple[int, ...]
    layers: tuple[int, ...]
    text_key: str | None = None
    quantized: bool = False

    @property
    def experts(self) -> bool:
        """Tell whether it is a mixture of experts."""
        return any(self.config.get(name) for name in ("n_routed_experts", "num_local_experts", "num_experts"))

    @property
    def vocabulary(self) -> int:
        """Give the number of tokens that it knows."""
        return int(self.config["vocab_size"])


def shrink(target: Mapping[str, Any], job: Job) -> Tiny:
    """Derive the tiny model for a job; raises CannotShrink."""
    text_key = next((key for key in TEXT_KEYS if isinstance(target.get(key), dict)), None)
    text: dict[str, Any] = dict(target[text_key] if text_key else target)
    total = _number(text, "num_hidden_layers", "n_layer", "num_layers")
    if total is None or total < 1:
        raise CannotShrink("its configuration does not say how many layers there are")
    if outside := [layer for layer in job.layers if not 0 <= layer < total]:
        raise CannotShrink(f"the job asks for layers {outside} of {total}")
    kept = layers.keep(total, job.layers)
    small = {name: value for name, value in text.items() if name not in DROPPED}
    small |= layers.per_layer(small, total, kept)
    small |= _sized(text, job)
    small |= {name: len(kept) for name in ("num_hidden_layers", "n_layer", "num_layers") if name in text}
    small |= {"num_nextn_predict_layers": 0} if "num_nextn_predict_layers" in text else {}
    names = text.get("architectures") or (None if text_key else target.get("architectures")) or [None]
    return Tiny(
        config=small,
        architecture=names[0],
        kept=kept,
        layers=layers.mapped(job.layers, kept),
        text_key=text_key,
        quantized=bool(text.get("quantization_config") or target.get("quantization_config")),
    )


def _sized(text: dict[str, Any], job: Job) -> dict[str, Any]:
    """Give the fields that say sizes, those only that the target has."""
    hidden, attention = _attention(text, job)
    width = -(-2 * hidden // (64 * job.tensor_parallel)) * 64 * job.tensor_parallel
    sizes = {
        **attention,
        "hidden_size": hidden,
        "n_embd": hidden,
        "d_model": hidden,
        "intermediate_size": width,
        "n_inner": width,
        "moe_intermediate_size": 128 * job.tensor_parallel,
        "shared_expert_intermediate_size": 128 * job.tensor_parallel,
        **_routing(text),
        **_vocabulary(text),
    }
    made = {name: value for name, value in sizes.items() if text.get(name) is not None}
    if (positions := _number(text, "max_position_embeddings")) is not None:
        made["max_position_embeddings"] = max(positions, job.max_model_len)
    return made


def _attention(text: dict[str, Any], job: Job) -> tuple[int, dict[str, Any]]:
    """Give the hidden size and the fields of attention: heads that the workers can share, in the target's ratio."""
    heads = _number(text, "num_attention_heads", "n_head")
    hidden = _number(text, "hidden_size", "n_embd", "d_model")
    if heads is None or hidden is None:
        raise CannotShrink("its configuration does not say how wide it is (hidden size, attention heads)")
    workers = job.tensor_parallel
    if text.get("kv_lora_rank") is not None:
        count = workers * min(2, max(1, heads // workers))
        fields = dict.fromkeys(("num_attention_heads", "num_key_value_heads"), count)
        rank = _number(text, "q_lora_rank")
        return LATENT, fields if rank is None else {**fields, "q_lora_rank": min(rank, QUERY_RANK)}
    shared = _number(text, "num_key_value_heads", "num_kv_heads", "multi_query_group_num") or heads
    few = _few(shared, workers)
    step = math.lcm(few, workers)
    count = step * max(1, -(-few * min(2, heads // shared) // step))
    size = _number(text, "head_dim") or hidden // heads
    if not _bound_to_its_heads(text):
        size = min(size, HEAD.get(job.device, HEAD["cuda"]))
    names = {"num_attention_heads": count, "n_head": count, "num_key_value_heads": few, "num_kv_heads": few}
    return count * size, {**names, "multi_query_group_num": few, "head_dim": size}


def _few(shared: int, workers: int) -> int:
    """Give key and value heads: at least two, where there are, and as the workers can deal with them."""
    if shared <= workers:
        return shared
    return workers * 2 if workers == 1 else workers


def _bound_to_its_heads(text: dict[str, Any]) -> bool:
    """Tell whether the rotary embedding lists factors for each dimension of a head."""
    rope = [text.get(name) for name in ("rope_scaling", "rope_parameters")]
    return any(isinstance(value, list) for one in rope if isinstance(one, dict) for value in one.values())


def _routing(text: dict[str, Any]) -> dict[str, Any]:
    """Give the fields of a mixture of experts: a few of each, still a choice."""
    total = _number(text, "n_routed_experts", "num_local_experts", "num_experts")
    if not total:
        return {}
    count = min(total, EXPERTS)
    groups = math.gcd(min(_number(text, "n_group") or 1, count // 2 or 1), count)
    chosen = min(_number(text, "topk_group") or groups, groups)
    each = _number(text, "num_experts_per_tok", "moe_topk") or 1
    most = min(each, PER_TOKEN, chosen * (count // groups))
    return {
        **dict.fromkeys(("n_routed_experts", "num_local_experts", "num_experts"), count),
        **dict.fromkeys(("num_experts_per_tok", "moe_topk"), most),
        "n_group": groups,
        "topk_group": chosen,
        "n_shared_experts": min(_number(text, "n_shared_experts") or 1, 1),
    }


def _vocabulary(text: dict[str, Any]) -> dict[str, Any]:
    """Give a small vocabulary; special tokens that lie beyond it are nobody's."""
    size = min(_number(text, "vocab_size") or VOCABULARY, VOCABULARY)
    tokens = {
        name: None
        for name, value in text.items()
        if name.endswith("_token_id") and (isinstance(value, list) or (type(value) is int and not 0 <= value < size))
    }
    return {"vocab_size": size, **tokens}


def _number(text: Mapping[str, Any], *names: str) -> int | None:
    return next((value for name in names if type(value := text.get(name)) is int), None)
