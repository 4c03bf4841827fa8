"""The tiny model's configuration and the rehearsal's prompts: pure, for any target and job."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from remote.rehearsal import layers, prompts, shrink
from remote.rehearsal.shrink import CannotShrink
from remote.schema import Job

JOB = Job(
    name="t", engine="speculators", python="", workdir="", output="", layers=(2, 30, 58, 60), device="cuda",
    tensor_parallel=8,
)  # fmt: skip
KIMI = json.loads((Path(__file__).parents[1] / "data" / "kimi-k2.5" / "config.json").read_text())
LLAMA = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 8192, "intermediate_size": 28672,
    "num_hidden_layers": 80, "num_attention_heads": 64, "num_key_value_heads": 8, "vocab_size": 128256,
    "max_position_embeddings": 131072, "bos_token_id": 128000, "eos_token_id": [128001, 128009], "rms_norm_eps": 1e-05,
    "rope_theta": 500000.0, "rope_scaling": {"rope_type": "llama3", "factor": 8.0}, "tie_word_embeddings": False,
}  # fmt: skip
QWEN_MOE = {
    "architectures": ["Qwen3MoeForCausalLM"], "model_type": "qwen3_moe", "hidden_size": 4096, "head_dim": 128,
    "intermediate_size": 12288, "moe_intermediate_size": 1536, "num_hidden_layers": 94, "num_attention_heads": 64,
    "num_key_value_heads": 4, "num_experts": 128, "num_experts_per_tok": 8, "vocab_size": 151936,
    "max_position_embeddings": 40960, "mlp_only_layers": [0, 30, 31], "decoder_sparse_step": 1,
    "layer_types": ["sliding_attention", "full_attention"] * 47, "max_window_layers": 31,
}  # fmt: skip


def test_kimi_becomes_a_tiny_deepseek_with_its_latent_attention() -> None:
    tiny = shrink.shrink(KIMI, JOB)
    assert (tiny.architecture, tiny.text_key, tiny.quantized, tiny.experts) == (
        "DeepseekV3ForCausalLM",
        "text_config",
        True,
        True,
    )
    assert tiny.kept == (0, 1, 2, 29, 30, 57, 58, 59, 60)
    assert [tiny.kept[layer] for layer in tiny.layers] == [2, 30, 58, 60]
    text = KIMI["text_config"]
    same = ("kv_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim", "rope_scaling", "scoring_func")
    assert {name: tiny.config[name] for name in same} == {name: text[name] for name in same}
    assert tiny.config["first_k_dense_replace"] == 1
    assert tiny.config["num_hidden_layers"] == 9
    assert tiny.config["num_attention_heads"] % 8 == 0
    assert tiny.config["n_routed_experts"] == 8
    assert "quantization_config" not in tiny.config


def test_what_decides_behaviour_is_kept_and_what_costs_is_cut() -> None:
    tiny = shrink.shrink(LLAMA, replace(JOB, layers=(2, 40, 79), tensor_parallel=2)).config
    kept = ("rope_theta", "rope_scaling", "rms_norm_eps", "tie_word_embeddings", "max_position_embeddings")
    assert {name: tiny[name] for name in kept} == {name: LLAMA[name] for name in kept}
    assert (tiny["num_attention_heads"], tiny["num_key_value_heads"], tiny["hidden_size"]) == (4, 2, 4 * 64)
    assert "head_dim" not in tiny
    assert (tiny["vocab_size"], tiny["bos_token_id"], tiny["eos_token_id"]) == (4096, None, None)


def test_what_is_said_layer_by_layer_is_that_of_the_kept_layers() -> None:
    tiny = shrink.shrink(QWEN_MOE, replace(JOB, layers=(2, 31, 93), tensor_parallel=4))
    assert tiny.kept == (0, 1, 2, 30, 31, 92, 93)
    config: dict[str, Any] = tiny.config
    assert config["layer_types"] == [QWEN_MOE["layer_types"][layer] for layer in tiny.kept]  # type: ignore[index]
    assert config["mlp_only_layers"] == [0, 3, 4]
    assert config["max_window_layers"] == 4


def test_factors_for_each_dimension_keep_the_heads_as_they_are() -> None:
    long = {**LLAMA, "rope_scaling": {"type": "longrope", "long_factor": [1.0] * 64, "short_factor": [1.0] * 64}}
    tiny = shrink.shrink(long, replace(JOB, layers=(1,), tensor_parallel=1)).config
    assert tiny["hidden_size"] == tiny["num_attention_heads"] * 128


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({}, "how many layers"),
        ({"num_hidden_layers": 0}, "how many layers"),
        ({"num_hidden_layers": "12", "hidden_size": 8}, "how many layers"),
        ({"num_hidden_layers": 61}, "how wide"),
        ({**LLAMA, "num_hidden_layers": 8}, "layers [30, 58, 60] of 8"),
    ],
)
def test_a_configuration_that_says_too_little_is_refused(config: dict[str, Any], words: str) -> None:
    with pytest.raises(CannotShrink) as error:
        shrink.shrink(config, JOB)
    assert words in str(error.value)


@settings(deadline=None)
@given(
    total=st.integers(1, 200),
    picked=st.lists(st.integers(0, 199), max_size=8, unique=True),
)
def test_layers_are_mapped_in_order_with_first_and_last(total: int, picked: list[int]) -> None:
    wanted = tuple(layer for layer in picked if layer < total)
    kept = layers.keep(total, wanted)
    assert list(kept) == sorted(set(kept))
    assert kept[0] == 0
    assert kept[-1] == total - 1
    assert len(kept) <= max(layers.UNNAMED, 2 * len(wanted) + 2)
    mapped = layers.mapped(wanted, kept)
    assert tuple(kept[layer] for layer in mapped) == wanted
    # A layer is told from the one before it: that one is there as well.
    assert all(layer == 0 or layer - 1 in kept for layer in wanted)


@settings(deadline=None)
@given(
    workers=st.sampled_from([1, 2, 4, 8]),
    groups=st.sampled_from([1, 2, 3, 4, 8]),
    ratio=st.sampled_from([1, 2, 4, 5, 8]),
    dim=st.sampled_from([32, 64, 80, 128, 256]),
    named=st.booleans(),
    device=st.sampled_from(["cpu", "cuda"]),
)
def test_heads_can_be_shared_by_the_workers(
    workers: int, groups: int, ratio: int, dim: int, *, named: bool, device: str
) -> None:
    shared = groups * workers
    config = {
        **LLAMA,
        "num_attention_heads": shared * ratio,
        "num_key_value_heads": shared,
        "hidden_size": shared * ratio * dim,
        **({"head_dim": dim} if named else {}),
    }
    tiny = shrink.shrink(config, replace(JOB, layers=(2,), tensor_parallel=workers, device=device)).config
    heads, few = tiny["num_attention_heads"], tiny["num_key_value_heads"]
    assert heads % workers == few % workers == heads % few == 0
    assert (heads > few) is (ratio > 1)
    size = tiny.get("head_dim") or tiny["hidden_size"] // heads
    assert min(dim, 32) <= size <= dim
    assert tiny["intermediate_size"] % workers == 0
    assert tiny["hidden_size"] <= 4 * workers * max(64, size)


@settings(deadline=None)
@given(
    experts=st.integers(2, 512), groups=st.sampled_from([1, 2, 4, 8]), chosen=st.integers(1, 8), each=st.integers(1, 9)
)
def test_routing_stays_a_choice_that_can_be_made(experts: int, groups: int, chosen: int, each: int) -> None:
    text = {
        **KIMI["text_config"],
        "n_routed_experts": experts,
        "n_group": groups,
        "topk_group": min(chosen, groups),
        "num_experts_per_tok": each,
    }
    tiny = shrink.shrink(text, JOB).config
    count = tiny["n_routed_experts"]
    assert count == min(experts, 8)
    assert count % tiny["n_group"] == 0
    assert 1 <= tiny["topk_group"] <= tiny["n_group"]
    assert 1 <= tiny["num_experts_per_tok"] <= tiny["topk_group"] * (count // tiny["n_group"])


@settings(deadline=None)
@given(
    longest=st.integers(1, 4096),
    block=st.sampled_from([1, 8, 16, 32, 128]),
    batch=st.integers(1, 64),
    vocabulary=st.integers(2, 5000),
    device=st.sampled_from(["cpu", "cuda"]),
)
def test_prompts_stand_around_every_edge(longest: int, block: int, batch: int, vocabulary: int, device: str) -> None:
    job = replace(JOB, batch_size=batch, device=device, max_model_len=longest + 1)
    plan = prompts.plan(job, longest=longest, block=block, vocabulary=vocabulary)
    lengths = prompts.lengths(plan.prompts)
    assert {length for length in (1, block - 1, block, block + 1, longest) if 1 <= length <= longest} <= set(lengths)
    assert lengths[-1] == longest
    assert len(plan.too_long) == longest + 1
    assert len(plan.batches) >= 2
    assert all(0 <= token < vocabulary for prompt in plan.prompts for token in prompt)
    assert all(1 <= len(one) <= max(batch, 2) for one in plan.batches)
    assert max(map(len, plan.batches[:-1])) >= batch  # so many at a time, beside the largest batch of long ones
    if longest > 700:
        assert len(lengths) >= 12
    if device == "cuda":
        assert plan.capped is None
        assert list(map(len, plan.batches[-1])) == [longest] * batch
    else:
        assert (plan.capped is not None) is (len(plan.batches[-1]) < batch)


def test_the_same_job_gets_the_same_prompts_and_no_two_alike() -> None:
    plans = [prompts.plan(JOB, longest=2047, block=16, vocabulary=4096) for _ in range(2)]
    assert plans[0] == plans[1]
    long = [prompt for prompt in plans[0].prompts if len(prompt) > 2]
    assert len(set(long)) == len(long) - 1  # one comes twice, and once more with a token behind it
    assert sum(other[: len(one)] == one for one in long for other in long if other is not one) >= 2


@settings(deadline=None)
@given(longest=st.integers(60, 200_000), batch=st.integers(1, 64))
def test_what_is_compared_stays_within_seconds(longest: int, batch: int) -> None:
    count = min(batch, 2_000_000 // longest + 1)  # so that the test itself does
    prompt = (7,) * longest
    plan = prompts.Plan(batches=((prompt[:1], prompt[:17]), (prompt,) * count), too_long=(), in_parts=(prompt[:50],))
    assert len(plan.compared) == len(plan.prompts)
    assert plan.compared[:2] == [1, 17]
    assert plan.compared[-1] == 50
    assert plan.compared[2] == min(longest, 9_999)
    parts = zip(plan.prompts, plan.compared, strict=True)
    assert all(min(len(one), prompts.PART) <= part <= len(one) for one, part in parts)
    assert sum(part**2 for part in plan.compared) <= prompts.SQUARES + prompts.PART**2 * (count + 1)
