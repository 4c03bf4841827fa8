"""Hidden states against the reference: how far off each token is, whether that is rounding, and if not, what it is.

A token's error is the length of the difference over the length of what it should be. Rounding makes it small for every
token; a row that is somebody else's makes it about 1.4, a neighbouring layer's about 0.5. A mixture of experts may, for
want of precision, choose other experts for single tokens: it is judged by its median, and by what no choice explains.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

EXPLAINED = 3  # wrong states that are looked into: the first ones tell enough
FOREIGN = 0.9  # an error that no rounding and no other choice of experts makes


@dataclass(frozen=True, kw_only=True, slots=True)
class Bounds:
    """Errors up to which states are taken for the same."""

    median: float
    worst: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Error:
    """How far off one layer of one prompt is."""

    median: float
    worst: float
    token: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Wrong:
    """One layer of one prompt that is not what it should be; `seems` says what it is, where that is known."""

    prompt: int
    layer: int
    error: Error | None
    seems: str


def bounds(dtype: str, *, experts: bool) -> Bounds:
    """Give the bounds for a model's kind and precision."""
    exact = dtype == "float32"
    if experts:
        return Bounds(median=1e-3 if exact else 0.05, worst=FOREIGN)
    return Bounds(median=1e-4, worst=1e-3) if exact else Bounds(median=0.05, worst=0.2)


def error(state: Any, wanted: Any) -> Error:
    """Measure one layer of one prompt; both are [tokens, hidden size], of one shape."""
    off = (state.float() - wanted).norm(dim=-1) / wanted.norm(dim=-1).clamp_min(1e-9)
    off = off.nan_to_num(nan=float("inf"), posinf=float("inf"))
    worst, token = off.max(dim=0)
    return Error(median=float(off.median()), worst=float(worst), token=int(token))


def within(found: Error, limit: Bounds) -> bool:
    """Tell whether an error is rounding."""
    return found.median <= limit.median and found.worst <= limit.worst


def hold(
    answers: Sequence[Sequence[Any]],
    references: Sequence[Sequence[Any]],
    layers: Sequence[int],
    limit: Bounds,
) -> tuple[dict[int, list[Error]], list[Wrong]]:
    """Hold the states of all prompts against the reference's; gives the errors of each layer, and what is wrong.

    `answers[prompt]` has a state for each of `layers`, `references[prompt]` one for every layer of the model.
    """
    errors: dict[int, list[Error]] = {layer: [] for layer in layers}
    wrong: list[Wrong] = []
    for number, (states, reference) in enumerate(zip(answers, references, strict=True)):
        for layer, state in zip(layers, states, strict=True):
            wanted = reference[layer]
            if tuple(state.shape) != tuple(wanted.shape):
                seems = f"has the shape {tuple(state.shape)}, not {tuple(wanted.shape)}"
                wrong.append(Wrong(prompt=number, layer=layer, error=None, seems=seems))
                continue
            found = error(state, wanted)
            errors[layer].append(found)
            if not within(found, limit) or _nearer(state, layer, reference, found):
                seems = explain(state, number, layer, references, limit) if len(wrong) < EXPLAINED else ""
                wrong.append(Wrong(prompt=number, layer=layer, error=found, seems=seems))
    return errors, wrong


def _nearer(state: Any, layer: int, reference: Sequence[Any], found: Error) -> bool:
    """Tell whether a neighbouring layer fits better: some models' layers change little more than rounding does."""
    neighbours = [other for other in (layer - 1, layer + 1) if 0 <= other < len(reference)]
    return any(error(state, reference[other]).median < found.median for other in neighbours)


def explain(state: Any, prompt: int, layer: int, references: Sequence[Sequence[Any]], limit: Bounds) -> str:
    """Say whose states these are, should they be somebody's: another layer's, a neighbour's, another prompt's."""
    own = references[prompt]
    fits = [(error(state, wanted), other) for other, wanted in enumerate(own)]
    best, other = min(fits, key=lambda one: one[0].median)
    if other != layer and within(best, limit):
        return f"is that of layer {other}"
    for step in (1, -1):
        if _shifted(state, own[layer], step, limit):
            return f"is shifted by one token: each has its {'successor' if step > 0 else 'predecessor'}'s"
    for other, reference in enumerate(references):
        if other != prompt and len(reference[layer]) >= len(state) and _is_part(state, reference[layer], limit):
            return f"is that of prompt {other}"
    return _from_token(state, own[layer], limit)


def _shifted(state: Any, wanted: Any, step: int, limit: Bounds) -> bool:
    if len(state) <= 1:
        return False
    here, there = (state[:-1], wanted[1:]) if step > 0 else (state[1:], wanted[:-1])
    return within(error(here, there), limit)


def _is_part(state: Any, wanted: Any, limit: Bounds) -> bool:
    return within(error(state, wanted[: len(state)]), limit) or within(error(state, wanted[-len(state) :]), limit)


def _from_token(state: Any, wanted: Any, limit: Bounds) -> str:
    good = ((state.float() - wanted).norm(dim=-1) / wanted.norm(dim=-1).clamp_min(1e-9)) <= limit.worst
    bad = [index for index, sound in enumerate(good.tolist()) if not sound]
    if not bad:
        return "is off everywhere"
    if bad == list(range(bad[0], len(state))) and bad[0] > 0:
        return f"is right up to token {bad[0] - 1} and wrong from token {bad[0]} on"
    if len(bad) == len(state):
        return "is not what the model computes"
    return f"is wrong for {len(bad)} of {len(state)} tokens, the first of them token {bad[0]}"


def worst(errors: Iterable[Error]) -> tuple[float, float]:
    """Give the worst token and the worst median."""
    seen = list(errors)
    return max((one.worst for one in seen), default=0.0), max((one.median for one in seen), default=0.0)
