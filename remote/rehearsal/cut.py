"""From the target's `config.json` to the same model with few layers: its real widths, heads, experts and vocabulary.

Quantization stays where vLLM can make it up: names of layers in it are those of the layers that are kept. Pure.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from remote.model.model_config import TEXT_KEYS
from remote.rehearsal import layers
from remote.rehearsal.shrink import CannotShrink

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from remote.schema import Job

QUANTIZATION = ("quantization_config", "compression_config")
READ_ONLY = {"bitsandbytes", "gguf"}  # kinds that vLLM has only with a reader of their files
ORDERED = {"desc_act": False, "actorder": None}  # an order of activations is an index: made up, it points anywhere
EXPERTS = ("n_routed_experts", "num_local_experts", "num_experts")
FEWEST = 8
OTHER_PARTS = re.compile(r"vis(?:ion|ual)|vit\b|audio|tower")
NUMBERED = re.compile(r"(\blayers\\?\.)(\d+)(?=\\?\.|$)")


@dataclass(frozen=True, kw_only=True, slots=True)
class Thin:
    """The target with few layers; `changed` says what else is not its own."""

    config: dict[str, Any]
    text_key: str | None
    kept: tuple[int, ...]
    layers: tuple[int, ...]
    changed: tuple[str, ...] = ()

    @property
    def text(self) -> dict[str, Any]:
        """Give the text model's part of the configuration."""
        return self.config[self.text_key] if self.text_key else self.config

    @property
    def hidden(self) -> int:
        """Give the width of its states."""
        return next(int(self.text[name]) for name in ("hidden_size", "n_embd", "d_model") if self.text.get(name))

    @property
    def experts(self) -> int:
        """Give the number of experts of a layer, 0 where there are none."""
        return next((self.text[name] for name in EXPERTS if type(self.text.get(name)) is int), 0)

    @property
    def quantization(self) -> dict[str, Any]:
        """Give how its weights are kept, empty where they are whole numbers of bytes."""
        places = (place.get(name) for place in (self.text, self.config) for name in QUANTIZATION)
        return next((found for found in places if isinstance(found, dict) and found), {})


def cut(target: Mapping[str, Any], job: Job, experts: int | None = None) -> Thin:
    """Derive the thin model for a job, with fewer experts where that is asked for; raises CannotShrink."""
    text_key = next((key for key in TEXT_KEYS if isinstance(target.get(key), dict)), None)
    text: dict[str, Any] = dict(target[text_key] if text_key else target)
    total = next((text[name] for name in ("num_hidden_layers", "n_layer", "num_layers") if name in text), None)
    if type(total) is not int or total < 1:
        raise CannotShrink("its configuration does not say how many layers there are")
    kept = layers.few(total, job.layers)
    text |= layers.per_layer(text, total, kept)
    text |= {name: len(kept) for name in ("num_hidden_layers", "n_layer", "num_layers") if name in text}
    text |= {"num_nextn_predict_layers": 0} if "num_nextn_predict_layers" in text else {}
    changed: list[str] = []
    if experts is not None:
        text |= {name: experts for name in EXPERTS if type(text.get(name)) is int}
        changed.append(f"{experts} experts in each layer, so that it fits")
    config = {**target, text_key: text} if text_key else text
    for place in (text, config) if text_key else (text,):
        changed += _quantized(place, kept)
    thin = Thin(
        config=config,
        text_key=text_key,
        kept=kept,
        layers=layers.mapped(job.layers, kept),
        changed=tuple(dict.fromkeys(changed)),
    )
    if not any(type(text.get(name)) is int for name in ("hidden_size", "n_embd", "d_model")):
        raise CannotShrink("its configuration does not say how wide it is")
    return thin


def fewer_experts(thin: Thin) -> Iterator[int]:
    """Give smaller and smaller numbers of experts that its routing still works with."""
    groups = thin.text.get("n_group") or 1
    least = max(FEWEST, *(thin.text.get(name) or 1 for name in ("num_experts_per_tok", "moe_topk")), 2 * groups)
    count = thin.experts // 2
    while count >= least:
        if count % groups == 0:
            yield count
        count //= 2


def _quantized(place: dict[str, Any], kept: Sequence[int]) -> Iterator[str]:
    """Adapt what a configuration says of quantization; says what had to change."""
    for name in QUANTIZATION:
        found = place.get(name)
        if not isinstance(found, dict):
            continue
        method = found.get("quant_method")
        if method in READ_ONLY:
            del place[name]
            yield f"not quantized ({method} needs its files)"
            continue
        place[name] = _renumbered(_unordered(found), kept)
        if _unordered(found) != found:
            yield "no order of activations in its quantization"


def _unordered(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: ORDERED[name] if name in ORDERED and part else _unordered(part) for name, part in value.items()}
    return [_unordered(part) for part in value] if isinstance(value, list) else value


def _renumbered(value: Any, kept: Sequence[int]) -> Any:
    """Rename layers to their new numbers, in lists and as keys; layers that are gone go from there."""
    if isinstance(value, dict):
        named = {_named(name, kept): _renumbered(part, kept) for name, part in value.items()}
        return {name: part for name, part in named.items() if name is not None}
    if isinstance(value, list):
        parts = [_named(part, kept) if isinstance(part, str) else _renumbered(part, kept) for part in value]
        return [part for part in parts if part is not None]
    return value


def _named(name: str, kept: Sequence[int]) -> str | None:
    found = NUMBERED.search(name)
    if found is None or OTHER_PARTS.search(name):
        return name
    layer = int(found[2])
    return f"{name[: found.start(2)]}{kept.index(layer)}{name[found.end(2) :]}" if layer in kept else None
