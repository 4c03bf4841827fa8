"""What a sample file holds, and what is wrong with one: pure judgements, no folder, no manifest.

A sample file is `torch.save` of `{"input_ids", "hidden_states": [one tensor per layer], "loss_mask"}`: what speculators
trains from.
"""

from __future__ import annotations

import itertools
import zipfile
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence

    from remote.prompts.tokens import Tokens


class SampleInvalid(ValueError):
    """Hidden states that must not be trained from: the message says what is wrong with them."""


def load(path: os.PathLike[str] | str) -> dict[str, Any]:
    """Read a sample file; raises SampleInvalid for one that is not whole or not a sample."""
    import torch

    try:
        document = torch.load(path, weights_only=True, map_location="cpu")
    except Exception as error:
        raise SampleInvalid(f"cannot be loaded ({type(error).__name__}: {str(error).splitlines()[0]:.200})") from error
    if not isinstance(document, dict) or not {"input_ids", "hidden_states", "loss_mask"} <= document.keys():
        raise SampleInvalid("is not a sample: lacks input_ids, hidden_states or loss_mask")
    return document


def hold_to_checksums(path: os.PathLike[str] | str) -> None:
    """Read every record of a sample file against the checksum beside it, which `torch.load` does not look at.

    Raises SampleInvalid. It is what vouches for a file whose line in the manifest is lost.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            wrong = archive.testzip() if archive.namelist() else "no record"
    except Exception as error:
        raise SampleInvalid(f"is no whole archive ({type(error).__name__}: {error})") from error
    if wrong is not None:
        raise SampleInvalid(f"has bytes that have changed since it was written (in {wrong})")


def problem_of(states: Sequence[Any], tokens: int) -> str | None:
    """Say what is wrong with hidden states: their shapes, values that are not finite, zeros, equal layers."""
    return _wrong_form(states, tokens) or _wrong_values(states)


def problem_with(document: dict[str, Any], sample: Tokens, layers: Sequence[int]) -> str | None:
    """Say what is wrong with a loaded sample file, held against the dataset's sample."""
    ids, mask, states = document["input_ids"], document["loss_mask"], document["hidden_states"]
    if ids.tolist() != sample.input_ids.tolist():
        return "holds tokens that are not the dataset's"
    if bytes(mask.tolist()) != sample.loss_mask:
        return "holds a loss mask that is not the dataset's"
    if layers and len(states) != len(layers):
        return f"holds {len(states)} layers, the job wants {len(layers)}"
    return problem_of(states, len(sample))


def _wrong_form(states: Sequence[Any], tokens: int) -> str | None:
    if not states:
        return "has no hidden states"
    shapes = {tuple(state.shape) for state in states}
    if len(shapes) != 1 or len(states[0].shape) != 2 or states[0].shape[0] != tokens:  # noqa: PLR2004
        return f"{tokens} tokens, but hidden states of the shapes {sorted(shapes)}"
    if len({state.dtype for state in states}) != 1 or not states[0].is_floating_point():
        return f"hidden states of the types {', '.join(sorted({str(state.dtype) for state in states}))}"
    return None


def _wrong_values(states: Sequence[Any]) -> str | None:
    import torch

    for number, state in enumerate(states):
        if not bool(torch.isfinite(state).all()):
            return f"hidden states {number} are not finite (NaN or infinity)"
        if not bool((state != 0).any()):
            return f"hidden states {number} are all zero"
    for (first, one), (second, other) in itertools.combinations(enumerate(states), 2):
        if torch.equal(one, other):
            return f"hidden states {first} and {second} are equal: layers must differ"
    return None
