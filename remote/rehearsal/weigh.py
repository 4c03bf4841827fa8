"""How many bytes the weights of a thin model take, from its configuration alone: rather too many than too few. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from remote.model.model_config import DTYPE_SIZES
from remote.rehearsal.cut import EXPERTS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from remote.rehearsal.cut import Thin

SCALES = 1.15  # scales and zero points beside quantized weights
FOUR_BITS = ("fp4", "int4", "w4", "awq", "marlin")


def each(thin: Thin, workers: int, dtype: str) -> int:
    """Give the bytes on each worker while the model is loaded: its layers, and the largest once more.

    Quantized weights are put in another order after they are loaded, a layer at a time.
    """
    size = DTYPE_SIZES.get(dtype, 2)
    text, packed = thin.text, min(float(size), _bytes(thin.quantization, size))
    found = [_layer(text, number, size, packed) for number in range(len(thin.kept))]
    whole = _ends(text, thin.hidden) * size + _vision(thin.config) * size + sum(found) + max(found)
    return int(whole / workers)


def _bytes(quantization: Mapping[str, Any], size: int) -> float:
    """Give the bytes of a quantized weight."""
    if not quantization:
        return float(size)
    stated = list(_numbers(quantization, ("num_bits", "bits", "w_bit")))
    if stated:
        return max(stated) / 8 * SCALES  # the widest of several: the estimate may be too large
    words = str(quantization).lower()
    return (0.5 if any(word in words for word in FOUR_BITS) else 1.0) * SCALES


def _numbers(value: Any, names: tuple[str, ...]) -> Iterator[int]:
    """Give the numbers of those names, of weights and not of activations."""
    for name, part in value.items() if isinstance(value, dict) else ():
        if name in names and type(part) is int and part > 0:
            yield part
        elif "activation" not in name and "kv_cache" not in name:
            yield from _numbers(part, names)


def _layer(text: Mapping[str, Any], number: int, size: int, packed: float) -> float:
    dense = number < _int(text, "first_k_dense_replace") or number in (text.get("mlp_only_layers") or ())
    experts = next((text[name] for name in EXPERTS if type(text.get(name)) is int), 0)
    hidden = _int(text, "hidden_size", "n_embd", "d_model")
    if experts and not dense:
        width = _int(text, "moe_intermediate_size", "intermediate_size")
        shared = max(_int(text, "n_shared_experts") * width, _int(text, "shared_expert_intermediate_size"))
        wide = 3 * hidden * (experts * width * packed + shared * size)
    else:
        wide = 3 * hidden * _int(text, "intermediate_size", "n_inner", default=4 * hidden) * packed
    return _attention(text, hidden) * size + wide


def _attention(text: Mapping[str, Any], hidden: int) -> int:
    """Give the number of weights of a layer's attention."""
    heads = _int(text, "num_attention_heads", "n_head", default=1)
    rank = _int(text, "kv_lora_rank")
    if rank:
        own, turned, value = (_int(text, name) for name in ("qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim"))
        asked = _int(text, "q_lora_rank")
        queries = (hidden + heads * (own + turned)) * asked if asked else hidden * heads * (own + turned)
        return queries + hidden * (rank + turned) + rank * heads * (own + value) + heads * value * hidden
    size = _int(text, "head_dim", default=hidden // heads)
    shared = _int(text, "num_key_value_heads", "num_kv_heads", "multi_query_group_num", default=heads)
    return 2 * hidden * size * (heads + shared)


def _ends(text: Mapping[str, Any], hidden: int) -> int:
    """Give the number of weights of the embedding and the head."""
    return (1 if text.get("tie_word_embeddings") else 2) * _int(text, "vocab_size") * hidden


def _vision(config: Mapping[str, Any]) -> int:
    """Give about the number of weights of a vision tower, which stays whole."""
    part = config.get("vision_config")
    if not isinstance(part, dict):
        return 0
    wide, depth = _int(part, "hidden_size", "embed_dim"), _int(part, "num_hidden_layers", "depth")
    return depth * wide * (4 * wide + 3 * _int(part, "intermediate_size", default=4 * wide))


def _int(text: Mapping[str, Any], *names: str, default: int = 0) -> int:
    return next((value for name in names if type(value := text.get(name)) is int), default)
