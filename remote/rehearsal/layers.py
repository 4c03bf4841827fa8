"""Which of the target's layers the tiny model has: those of the job, each with its predecessor, the first and the last.

The tiny model's layer `i` stands for the target's layer `kept[i]`: what differs from layer to layer (dense or experts,
full attention or a sliding window) is taken over from there, and the job's layers are mapped by it. Pure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

UNNAMED = 8  # layers of the tiny model where the job names none: the engine chooses among what there is


def keep(total: int, wanted: Sequence[int]) -> tuple[int, ...]:
    """Give the target's layers that the tiny model has, in their order."""
    if not wanted:
        count = min(total, UNNAMED)
        return tuple(sorted({round(step * (total - 1) / max(1, count - 1)) for step in range(count)}))
    kept = {0, total - 1}
    for layer in wanted:
        kept |= {layer, max(0, layer - 1)}  # with its predecessor, to be told from it
    return tuple(sorted(kept))


def few(total: int, wanted: Sequence[int]) -> tuple[int, ...]:
    """Give the fewest of the target's layers that run all that the job asks for: its own, the first and the last."""
    return tuple(sorted({0, total - 1, *wanted})) if wanted else keep(total, wanted)


def mapped(wanted: Sequence[int], kept: Sequence[int]) -> tuple[int, ...]:
    """Give the job's layers as the tiny model counts them, in the job's order."""
    return tuple(kept.index(layer) for layer in wanted)


def below(limit: int, kept: Sequence[int]) -> int:
    """Give how many of the kept layers are the target's first `limit` ones."""
    return sum(layer < limit for layer in kept)


def per_layer(config: dict[str, Any], total: int, kept: Sequence[int]) -> dict[str, Any]:
    """Give the fields of a configuration that say something of each layer, cut to the kept ones."""
    lists = {
        name: [value[layer] for layer in kept]
        for name, value in config.items()
        if isinstance(value, list) and len(value) == total and total > 1
    }
    indices = {
        name: [kept.index(layer) for layer in value if layer in kept]
        for name, value in config.items()
        if name in {"mlp_only_layers", "full_attn_idxs"} and isinstance(value, list)
    }
    counts = {
        name: below(value, kept)
        for name, value in config.items()
        if name in {"first_k_dense_replace", "max_window_layers"} and type(value) is int
    }
    return {**lists, **indices, **counts}
