"""In the stack's Python: `TOKENIZER FOLDER TEXT`. A tiny Kimi-K2.5, vision tower and all, and its text model alone.

The text model is a random DeepSeek-V3 with latent attention and yarn as Kimi-K2 has them; `TEXT` is what Transformers
computes the reference from. The image processor is the least that vLLM asks for: no picture is ever shown to it.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from transformers import AutoTokenizer, DeepseekV3Config, DeepseekV3ForCausalLM
from vllm.config import VllmConfig, set_current_vllm_config
from vllm.distributed import init_distributed_environment, initialize_model_parallel
from vllm.model_executor.models.kimi_k25_vit import KimiK25MultiModalProjector, MoonViT3dPretrainedModel
from vllm.transformers_utils.configs.kimi_k25 import KimiK25Config

TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "chat_template.jinja")
MEDIA = "<|media_pad|>"
YARN = {
    "rope_type": "yarn", "factor": 64.0, "original_max_position_embeddings": 4096, "beta_fast": 32.0, "beta_slow": 1.0,
    "mscale": 1.0, "mscale_all_dim": 1.0,
}  # fmt: skip
VISION = {
    "hidden_size": 64, "init_pos_emb_height": 8, "init_pos_emb_time": 4, "init_pos_emb_width": 8,
    "intermediate_size": 128, "merge_kernel_size": [2, 2], "merge_type": "sd2_tpool", "mm_hidden_size": 64,
    "mm_projector_type": "patchmerger", "num_attention_heads": 2, "num_hidden_layers": 2, "patch_size": 14,
    "pos_emb_type": "divided_fixed", "text_hidden_size": 128, "video_attn_type": "spatial_temporal",
}  # fmt: skip
PROCESSOR = """
import torch
from transformers.image_processing_utils import BaseImageProcessor


class TinyProcessor(BaseImageProcessor):
    model_input_names = ["pixel_values", "grid_thws"]
    num_frames_per_chunk = 4

    def media_tokens_calculator(self, media):
        return 4

    def preprocess(self, medias, **kwargs):
        count = len(medias)
        return {"pixel_values": torch.zeros(16 * count, 3, 14, 14), "grid_thws": torch.tensor([[1, 4, 4]] * count)}
"""


def main(tokenizer: str, folder: str, text: str) -> None:
    """Make both."""
    model = text_model(Path(text), Path(tokenizer))
    out = Path(folder)
    out.mkdir(parents=True)
    words: Any = AutoTokenizer.from_pretrained(tokenizer)
    words.add_special_tokens({"additional_special_tokens": [MEDIA]})
    words.save_pretrained(out)
    config = {
        "architectures": ["KimiK25ForConditionalGeneration"],
        "auto_map": {"AutoConfig": "configuration_kimi_k25.KimiK25Config"},
        "model_type": "kimi_k25",
        "dtype": "float32",
        "media_placeholder_token_id": words.convert_tokens_to_ids(MEDIA),
        "pad_token_id": 2,
        "eos_token_id": 1,
        "use_unified_vision_chunk": True,
        "tie_word_embeddings": False,
        "text_config": {**json.loads((Path(text) / "config.json").read_text()), "model_type": "kimi_k2"},
        "vision_config": VISION,
    }
    (out / "config.json").write_text(json.dumps(config))
    (out / "configuration_kimi_k25.py").write_text(
        "from vllm.transformers_utils.configs.kimi_k25 import KimiK25Config\n"
    )
    (out / "image_processing_tiny.py").write_text(PROCESSOR)
    auto = {"auto_map": {"AutoImageProcessor": "image_processing_tiny.TinyProcessor"}}
    (out / "preprocessor_config.json").write_text(json.dumps(auto))
    weights = {f"language_model.{name}": value for name, value in model.state_dict().items()}
    weights |= vision_weights(config, out)
    save_file({name: value.contiguous() for name, value in weights.items()}, out / "model.safetensors")


def text_model(folder: Path, tokenizer: Path) -> Any:
    """Make the text model, whose experts are chosen by scores that differ from token to token."""
    config = DeepseekV3Config(
        vocab_size=640, hidden_size=128, intermediate_size=256, moe_intermediate_size=64, num_hidden_layers=4,
        num_attention_heads=2, num_key_value_heads=2, n_shared_experts=1, n_routed_experts=8, num_experts_per_tok=2,
        routed_scaling_factor=2.827, n_group=1, topk_group=1, first_k_dense_replace=1, norm_topk_prob=True,
        kv_lora_rank=512, q_lora_rank=64, qk_rope_head_dim=64, qk_nope_head_dim=128, v_head_dim=128,
        max_position_embeddings=262144, rope_theta=50000.0, rope_scaling=YARN, rms_norm_eps=1e-5,
        tie_word_embeddings=False, initializer_range=0.1, bos_token_id=None, eos_token_id=1, pad_token_id=2,
    )  # fmt: skip
    torch.manual_seed(0)
    model: Any = DeepseekV3ForCausalLM(config)
    model.save_pretrained(folder)
    said = json.loads((folder / "config.json").read_text())
    said |= {"topk_method": "noaux_tc", "scoring_func": "sigmoid"}  # vLLM asks for them; Transformers has no other
    (folder / "config.json").write_text(json.dumps(said))
    for name in TOKENIZER_FILES:
        if (tokenizer / name).exists():
            shutil.copy(tokenizer / name, folder / name)
    return model


def vision_weights(config: dict[str, Any], out: Path) -> dict[str, torch.Tensor]:
    """Make random weights for vLLM's own vision tower and projector, under the names that they have."""
    parts = {name: config[name] for name in ("vision_config", "text_config")}
    with set_current_vllm_config(VllmConfig()):
        init_distributed_environment(1, 0, f"file://{out.parent}/rendezvous", 0, "gloo")
        initialize_model_parallel(1, 1)
        vision = KimiK25Config(**parts).vision_config
        made = {
            "vision_tower": MoonViT3dPretrainedModel(vision, prefix="vision_tower"),
            "mm_projector": KimiK25MultiModalProjector(config=vision, use_data_parallel=False, prefix="mm_projector"),
        }
    return {
        f"{prefix}.{name}": torch.randn(value.shape) * 0.02 if value.is_floating_point() else value
        for prefix, module in made.items()
        for name, value in module.state_dict().items()
    }


if __name__ == "__main__":
    main(*sys.argv[1:])
    os._exit(0)  # the process group of one needs no farewell
