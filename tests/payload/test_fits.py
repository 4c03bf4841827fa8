"""Weights and KV cache against the memory there is: what cannot work is refused, what might is not."""

from __future__ import annotations

from typing import Any

import pytest

from remote.gate import fits
from remote.gate.fits import GIB, Memory
from remote.model import model_config
from remote.model.model_folder import ModelFolder
from remote.model.safetensors_header import Header
from remote.schema import Job

LLAMA = {
    "num_hidden_layers": 80,
    "hidden_size": 8192,
    "num_attention_heads": 64,
    "num_key_value_heads": 8,
    "torch_dtype": "bfloat16",
}
CARD = 80 * GIB


def job(**changes: Any) -> Job:
    values: dict[str, Any] = {"model": "/m", "dataset": "/d.jsonl", "engine": "speculators"}
    return Job(name="j", python="python3", workdir="/w", output="/o", **{**values, **changes})


def folder(size: int, *, shards: int = 2, indexed: bool = True, damaged: bool = False, **config: Any) -> ModelFolder:
    names = [f"model-{number}.safetensors" for number in range(shards)]
    part = size // shards
    headers = {name: Header(size=part - damaged, needed=part, data=part) for name in names}
    return ModelFolder(
        path="/m",
        exists=True,
        config=model_config.parse({**LLAMA, **config}),
        headers={**headers, "consolidated.safetensors": Header(size=size, needed=size, data=size)},
        index={f"t{name}": name for name in names} if indexed else None,
    )


def rules(wanted: Job, model: ModelFolder, memory: Memory, longest: int = 0) -> list[str]:
    found = [*fits.of_weights(wanted, model, memory), *fits.of_cache(wanted, model, memory, longest)]
    assert all(finding.severity == "error" for finding in found)
    return [finding.rule for finding in found]


@pytest.mark.parametrize(
    ("cards", "refused"), [(1, True), (2, False), (4, False)], ids=["one", "two just take it", "four"]
)
def test_weights_that_no_card_takes_are_refused(cards: int, *, refused: bool) -> None:
    found = rules(job(tensor_parallel=cards), folder(141_000_000_000), Memory(card=CARD))
    assert found == (["weights-too-large"] if refused else [])


@pytest.mark.parametrize(
    ("model", "memory"),
    [
        (folder(10**12), Memory()),
        (folder(10**12, indexed=False), Memory(card=CARD)),
        (folder(10**12, damaged=True), Memory(card=CARD)),
        (folder(141_000_000_000, torch_dtype="float32"), Memory(card=CARD)),
        (folder(141_000_000_000, torch_dtype=None), Memory(card=CARD)),
        (folder(88 * GIB), Memory(card=CARD)),
    ],
    ids=["no card known", "no index", "a shard cut short", "single precision", "not said", "with layers not loaded"],
)
def test_what_is_not_certain_is_no_finding(model: ModelFolder, memory: Memory) -> None:
    assert rules(job(), model, memory) == []


def test_a_job_for_the_cpu_asks_no_card() -> None:
    assert rules(job(device="cpu"), folder(10**12), Memory(card=CARD)) == []


@pytest.mark.parametrize(
    ("longest", "refused"), [(8191, False), (16_000, False), (24_000, True)], ids=["usual", "fits", "cannot"]
)
def test_a_prompt_that_no_cache_has_room_for_is_refused(longest: int, *, refused: bool) -> None:
    """Two cards of 80 GiB with 63.5 GB of weights each: 0.8 and 0.2 of what is left, 163,840 bytes a token."""
    wanted = job(tensor_parallel=2, memory_fraction=0.8)
    found = rules(wanted, folder(141_000_000_000), Memory(card=CARD, share=0.2), longest)
    assert found == (["cache-too-small"] if refused else [])


@pytest.mark.parametrize(
    ("space", "refused"),
    [
        ("1", True),
        ("3", False),
        ("", False),
        ("0", True),
        ("-1", True),
        (" 3 ", False),
        ("many", False),
        ("²", False),
        ("-", False),
        ("0.5", False),
    ],
)
def test_on_a_cpu_the_cache_has_what_the_job_says(space: str, *, refused: bool) -> None:
    wanted = job(device="cpu", env={fits.CPU_CACHE: space})
    found = rules(wanted, folder(10**9), Memory(), 8191)  # 320 KiB a token
    assert found == (["cache-too-small"] if refused else [])


def test_no_cache_at_all_has_room_for_no_prompt() -> None:
    wanted = job(device="cpu", env={fits.CPU_CACHE: "0"})
    assert rules(wanted, folder(10**9), Memory(), 1) == ["cache-too-small"]


@pytest.mark.parametrize(
    ("config", "width", "expected"),
    [
        ({}, 1, 80 * 2 * 8 * 128 * 2),
        ({}, 8, 80 * 2 * 1 * 128 * 2),
        ({}, 16, 80 * 2 * 1 * 128 * 2),
        ({"head_dim": 64}, 1, 80 * 2 * 8 * 64 * 2),
        ({"kv_lora_rank": 512, "qk_rope_head_dim": 64}, 8, 80 * 576 * 2),
        ({"quantization_config": {"kv_cache_scheme": {"num_bits": 8}}}, 1, 80 * 2 * 8 * 128),
        ({"sliding_window": 4096}, 1, None),
        ({"sliding_window": 4096, "use_sliding_window": False}, 1, 80 * 2 * 8 * 128 * 2),
        ({"layer_types": ["full_attention", "linear_attention"]}, 1, None),
        ({"layer_types": ["full_attention"] * 80}, 1, 80 * 2 * 8 * 128 * 2),
        ({"num_kv_shared_layers": 10}, 1, None),
        ({"num_hidden_layers": None}, 1, None),
        ({"num_attention_heads": 0, "num_key_value_heads": None}, 1, None),
        ({"num_attention_heads": "many", "num_key_value_heads": 8}, 1, None),
    ],
)
def test_what_a_token_takes(config: dict[str, Any], width: int, expected: int | None) -> None:
    assert fits.per_token(model_config.parse({**LLAMA, **config}), width) == expected
