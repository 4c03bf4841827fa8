"""A model's `config.json` as plain facts: of the text model in it, where a multimodal one wraps it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import os

TEXT_KEYS = ("text_config", "llm_config", "language_config")  # the names that wrappers give to the text model's part
STATED = ("default", "su", "longrope", "llama3", "mrope")  # kinds of rope whose stated length is the stretched one
LARGEST_FACTOR = 1e6  # no rope is stretched that far: a number beyond it is none
DTYPE_SIZES = {"float32": 4, "float16": 2, "bfloat16": 2, "float64": 8}


class ConfigError(ValueError):
    """A config.json that is missing or cannot be understood; `line` is where, when that is known."""

    def __init__(self, message: str, line: int | None = None) -> None:
        super().__init__(message)
        self.line = line


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelConfig:
    """What the gate needs of a configuration; a number is None where the file does not say."""

    architectures: tuple[str, ...]
    text_architectures: tuple[str, ...]
    model_type: str
    text_key: str | None
    layers: int | None
    hidden: int | None
    heads: int | None
    kv_heads: int | None
    intermediate: int | None
    moe_intermediate: int | None
    experts: int | None
    vocabulary: int | None
    max_positions: int | None
    dtype: str | None
    mla: bool
    remote_code: tuple[str, ...]
    head_dim: int | None = None
    latent: int | None = None  # what takes the place of keys and values in the KV cache
    cache_value: int = 2  # bytes of a value in the KV cache, at least
    cached_alike: bool = True  # every layer keeps keys and values of its own, of all tokens

    @property
    def dtype_size(self) -> int:
        """Give the bytes of one value of a hidden state; 16 bits where the file does not say."""
        return DTYPE_SIZES.get(self.dtype or "", 2)


def read(folder: str | os.PathLike[str]) -> ModelConfig:
    """Read `config.json` of a model folder; raises ConfigError."""
    path = Path(folder) / "config.json"
    try:
        data = json.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        raise ConfigError("there is no config.json: not a model folder, or one still being downloaded") from None
    except json.JSONDecodeError as error:
        raise ConfigError(f"config.json is not JSON: {error.msg}", error.lineno) from None
    except (OSError, ValueError, RecursionError) as error:
        raise ConfigError(f"config.json cannot be read: {error}") from None
    if not isinstance(data, dict):
        raise ConfigError("config.json holds no JSON object", 1)
    return parse(data)


def parse(data: dict[str, Any]) -> ModelConfig:
    """Give the facts of a configuration."""
    text_key = next((key for key in TEXT_KEYS if isinstance(data.get(key), dict)), None)
    text: dict[str, Any] = data[text_key] if text_key else data

    def number(*names: str) -> int | None:
        for name in names:
            value = text.get(name)
            if type(value) is int:
                return value
        return None

    heads = number("num_attention_heads", "n_head")
    return ModelConfig(
        architectures=_names(data.get("architectures")),
        text_architectures=_names(text.get("architectures")),
        model_type=str(data.get("model_type", "")),
        text_key=text_key,
        layers=number("num_hidden_layers", "n_layer", "num_layers"),
        hidden=number("hidden_size", "n_embd", "d_model"),
        heads=heads,
        kv_heads=number("num_key_value_heads", "num_kv_heads") or heads,
        intermediate=number("intermediate_size"),
        moe_intermediate=number("moe_intermediate_size"),
        experts=number("n_routed_experts", "num_local_experts", "num_experts"),
        vocabulary=number("vocab_size"),
        max_positions=_positions(text, number("max_position_embeddings", "n_positions")),
        dtype=_dtype(text) or _dtype(data),
        mla=number("kv_lora_rank") is not None,
        remote_code=_remote_code(data.get("auto_map")),
        head_dim=number("head_dim") or _quotient(number("hidden_size", "n_embd", "d_model"), heads),
        latent=_sum(number("kv_lora_rank"), number("qk_rope_head_dim")),
        cache_value=1 if "kv_cache" in str(text.get("quantization_config") or data.get("quantization_config")) else 2,
        cached_alike=not _layers_differ(text),
    )


def _quotient(whole: int | None, parts: int | None) -> int | None:
    return whole // parts if whole and parts else None


def _sum(*numbers: int | None) -> int | None:
    known = [number for number in numbers if number is not None]
    return sum(known) if len(known) == len(numbers) else None


def _layers_differ(text: dict[str, Any]) -> bool:
    """Tell whether some layers keep less of a prompt than others: windows, linear attention, state spaces, sharing."""
    kinds = text.get("layer_types") or text.get("layers_block_type") or text.get("attn_type_list")
    if isinstance(kinds, list) and len(set(map(str, kinds))) > 1:
        return True
    windows = ("sliding_window",) if text.get("use_sliding_window") is not False else ()
    words = (*windows, "num_kv_shared_layers", "full_attention_interval", "hybrid_override_pattern", "ssm_cfg")
    return any(text.get(word) for word in words)


def _names(value: Any) -> tuple[str, ...]:
    return tuple(str(name) for name in value) if isinstance(value, list) else ()


def _dtype(data: dict[str, Any]) -> str | None:
    value = data.get("dtype") or data.get("torch_dtype")
    return value.removeprefix("torch.") if isinstance(value, str) else None


def _positions(text: dict[str, Any], stated: int | None) -> int | None:
    """Give the longest prompt that the model knows positions for, a stretched rotary embedding considered."""
    scaling = text.get("rope_scaling") or text.get("rope_parameters")
    if stated is None or not isinstance(scaling, dict):
        return stated
    original, factor = scaling.get("original_max_position_embeddings"), scaling.get("factor")
    kind = scaling.get("rope_type") or scaling.get("type")
    if kind in STATED or not isinstance(factor, int | float) or not 0 < factor < LARGEST_FACTOR:
        return stated
    return max(stated, int((original if type(original) is int else stated) * factor))


def _remote_code(auto_map: Any) -> tuple[str, ...]:
    """Name the Python files of the folder that the configuration points to (not those of other folders)."""
    if not isinstance(auto_map, dict):
        return ()
    flat = [item for value in auto_map.values() for item in (value if isinstance(value, list) else [value])]
    return tuple(sorted({f"{item.split('.')[0]}.py" for item in flat if isinstance(item, str) and "--" not in item}))
