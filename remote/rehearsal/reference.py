"""What Transformers computes for the same tokens: the state behind every decoder layer, before the final norm."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


class Reference:
    """The tiny model in Transformers, in single precision on the CPU, with a hook behind each of its layers."""

    def __init__(self, folder: Path) -> None:
        import torch
        from transformers import AutoModelForCausalLM

        self._model: Any = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, trust_remote_code=True)
        self._model.eval()
        body = getattr(self._model, self._model.base_model_prefix, self._model)
        self._body: Any = body  # the head is nobody's business, and most of the work
        self._seen: dict[int, Any] = {}
        for number, layer in enumerate(decoder_layers(body)):
            layer.register_forward_hook(self._keeper(number))

    def states(self, prompt: Sequence[int]) -> list[Any]:
        """Give [tokens, hidden size] for each of the model's layers."""
        import torch

        with torch.inference_mode():
            self._body(torch.tensor([list(prompt)]), use_cache=False)
        return [self._seen[number].reshape(len(prompt), -1) for number in sorted(self._seen)]

    def _keeper(self, number: int) -> Any:
        def keep(_module: Any, _given: Any, output: Any) -> None:
            self._seen[number] = output[0] if isinstance(output, tuple) else output

        return keep


def decoder_layers(body: Any) -> list[Any]:
    """Give the decoder's layers: the list of modules that is as long as the configuration says."""
    count = getattr(body.config, "num_hidden_layers", None)
    for name, module in body.named_modules():
        if type(module).__name__ == "ModuleList" and len(module) == count and "expert" not in name:
            return list(module)
    raise LookupError(f"{type(body).__name__} has no list of {count} layers")
