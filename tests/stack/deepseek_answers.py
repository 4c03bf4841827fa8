"""In the stack's Python: `TOKENIZER FOLDER ANSWER`. A tiny DeepSeek-V3, and the way into a multimodal model."""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from reference import Reference  # type: ignore[import-not-found] # beside this script
from speculators.data_generation.custom_worker import HiddenStatesWorkerExtension
from transformers import AutoTokenizer, DeepseekV3Config, DeepseekV3ForCausalLM

from remote.engines import base
from remote.schema import Job

LAYERS = (0, 2, 3)
YARN = {
    "type": "yarn", "factor": 32.0, "original_max_position_embeddings": 128, "beta_fast": 32.0, "beta_slow": 1.0,
    "mscale": 1.0, "mscale_all_dim": 1.0,
}  # fmt: skip


def make(tokenizer: str, folder: str) -> None:
    """Write the model: latent attention at its real width, the first layer dense, the others with experts."""
    config = DeepseekV3Config(
        vocab_size=640, hidden_size=128, intermediate_size=256, moe_intermediate_size=64, num_hidden_layers=4,
        num_attention_heads=4, num_key_value_heads=4, n_shared_experts=1, n_routed_experts=8, kv_lora_rank=512,
        q_lora_rank=64, qk_rope_head_dim=64, v_head_dim=128, qk_nope_head_dim=128, n_group=1, topk_group=1,
        num_experts_per_tok=2, first_k_dense_replace=1, max_position_embeddings=4096, rope_scaling=YARN,
        initializer_range=0.05,
    )  # fmt: skip
    torch.manual_seed(0)
    DeepseekV3ForCausalLM(config).to(torch.bfloat16).save_pretrained(folder)
    AutoTokenizer.from_pretrained(tokenizer).save_pretrained(folder)
    place = Path(folder) / "config.json"
    # What vLLM wants to be told, and Transformers does not write.
    told = {"topk_method": "noaux_tc", "scoring_func": "sigmoid"}
    place.write_text(json.dumps({**json.loads(place.read_text()), **told}))


def medians(folder: str) -> list[float]:
    """Give each layer's median error of a token: routing may flip on single ones in bf16."""
    job = Job(
        name="d", engine="speculators", python="", workdir="", output="", model=folder, layers=LAYERS,
        max_model_len=512,
    )  # fmt: skip
    engine = base.make(job)
    engine.load()
    reference = Reference(folder, list(LAYERS))
    chance = random.Random(1)  # noqa: S311
    asked = [[chance.randrange(10, 600) for _ in range(size)] for size in (1, 16, 17, 300, 40)]
    errors: list[list[float]] = [[] for _ in LAYERS]
    for prompt, states in zip(asked, engine.extract(asked), strict=True):
        for layer, (state, want) in enumerate(zip(states, reference.states(prompt), strict=True)):
            errors[layer] += ((state.float() - want).norm(dim=-1) / want.norm(dim=-1)).tolist()
    engine.close()
    return [sorted(one)[len(one) // 2] for one in errors]


class Decoder:
    """Has what capturing needs."""

    start_layer, end_layer, layers, norm = 0, 0, (), None

    def embed_input_ids(self) -> None:
        """Be there."""


def captured(model: Any) -> str:
    """Give what the capture is bound to in a model, or the refusal."""
    extension: Any = HiddenStatesWorkerExtension()
    extension.model_runner = SimpleNamespace(model=model)
    try:
        extension._setup_hidden_states_capture([0])
    except ValueError as error:
        return str(error)
    holders = {"model": getattr(model, "model", None), "language_model": getattr(model, "language_model", None)}
    if holders["language_model"] is not None:
        holders["language_model.model"] = holders["language_model"].model
    return ", ".join(name for name, part in holders.items() if hasattr(part, "_extension"))


def main(tokenizer: str, folder: str, answer: str) -> None:
    """Write the answer."""
    make(tokenizer, folder)
    told = {
        "medians": medians(folder),
        "plain": captured(SimpleNamespace(model=Decoder())),
        "wrapped": captured(SimpleNamespace(language_model=SimpleNamespace(model=Decoder()))),
        "neither": captured(SimpleNamespace(model=object())),
    }
    Path(answer).write_text(json.dumps(told))


if __name__ == "__main__":
    main(*sys.argv[1:])
