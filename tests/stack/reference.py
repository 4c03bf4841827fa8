"""In the stack's Python: what Transformers computes for the same tokens, layer by layer, before the final norm."""

from __future__ import annotations

from typing import Any

import torch
from transformers import AutoModelForCausalLM


class Reference:
    """The model in Transformers with a hook behind every layer that is asked for."""

    def __init__(self, model: str, layers: list[int]) -> None:
        self._model: Any = AutoModelForCausalLM.from_pretrained(model, dtype=torch.bfloat16)
        self._layers = layers
        self._seen: dict[int, torch.Tensor] = {}
        for layer in layers:
            self._model.model.layers[layer].register_forward_hook(self._keeper(layer))

    def states(self, tokens: list[int]) -> list[torch.Tensor]:
        """Give [tokens, hidden size] for each layer."""
        with torch.no_grad():
            self._model(torch.tensor([tokens]))
        return [self._seen[layer].reshape(len(tokens), -1).float() for layer in self._layers]

    def _keeper(self, layer: int) -> Any:
        def keep(_module: Any, _given: Any, output: Any) -> None:
            self._seen[layer] = output[0] if isinstance(output, tuple) else output

        return keep


class Errors:
    """Relative errors: per layer over everything seen, and the worst of a single prompt."""

    def __init__(self, layers: int) -> None:
        self._off = [0.0] * layers
        self._all = [0.0] * layers
        self.worst_prompt = 0.0

    def add(self, states: list[torch.Tensor], wanted: list[torch.Tensor]) -> None:
        """Take one prompt's states in; their shapes must be equal."""
        for layer, (state, want) in enumerate(zip(states, wanted, strict=True)):
            assert state.shape == want.shape, (state.shape, want.shape)
            off, size = float((state.float() - want).norm() ** 2), float(want.norm() ** 2)
            self._off[layer] += off
            self._all[layer] += size
            self.worst_prompt = max(self.worst_prompt, (off / size) ** 0.5)

    @property
    def by_layer(self) -> list[float]:
        """Give the relative error of each layer."""
        return [(off / size) ** 0.5 for off, size in zip(self._off, self._all, strict=True)]
