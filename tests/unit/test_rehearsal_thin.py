"""The thin model's configuration, its weight, and the form that its states must have: pure, for any target and job."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from remote.engines.base import EngineError
from remote.rehearsal import cut, thin, weigh
from remote.rehearsal.shrink import CannotShrink
from remote.schema import GateSpec, Job

KIMI = json.loads((Path(__file__).parents[1] / "data" / "kimi-k2.5" / "config.json").read_text())
JOB = Job(
    name="t", engine="speculators", python="", workdir="", output="", layers=(2, 30, 58, 60), device="cuda",
    tensor_parallel=8,
)  # fmt: skip
LLAMA: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 8192, "intermediate_size": 28672,
    "num_hidden_layers": 80, "num_attention_heads": 64, "num_key_value_heads": 8, "vocab_size": 128256,
    "torch_dtype": "bfloat16", "layer_types": ["sliding_attention", "full_attention"] * 40,
}  # fmt: skip
GB = 1e9


def test_kimi_keeps_all_but_its_layers() -> None:
    made = cut.cut(KIMI, JOB)
    assert made.kept == (0, 2, 30, 58, 60)
    assert [made.kept[layer] for layer in made.layers] == [2, 30, 58, 60]
    assert made.config == {**KIMI, "text_config": {**KIMI["text_config"], "num_hidden_layers": 5}}
    assert (made.hidden, made.experts, made.quantization["quant_method"]) == (7168, 384, "compressed-tensors")
    assert made.changed == ()
    assert KIMI["text_config"]["num_hidden_layers"] == 61


def test_what_is_said_of_each_layer_is_cut_with_them() -> None:
    made = cut.cut(LLAMA, replace(JOB, layers=(40, 3)))
    assert (made.kept, made.layers) == ((0, 3, 40, 79), (2, 1))
    assert made.config["layer_types"] == [LLAMA["layer_types"][layer] for layer in made.kept]
    assert made.config["num_hidden_layers"] == 4
    assert len(cut.cut(LLAMA, replace(JOB, layers=())).kept) == 8


@pytest.mark.parametrize(
    ("said", "kept"),
    [
        (["lm_head", "model.layers.2.mlp.gate"], ["lm_head", "model.layers.1.mlp.gate"]),
        (["model.layers.7.mlp.gate", "re:.*self_attn.*"], ["re:.*self_attn.*"]),
        (["re:model\\.layers\\.30\\.mlp.*"], ["re:model\\.layers\\.2\\.mlp.*"]),
        (["model.layers.60"], ["model.layers.4"]),
        (["vision_tower.encoder.layers.7.fc1"], ["vision_tower.encoder.layers.7.fc1"]),
        (["model.mlayers.7.fc1"], ["model.mlayers.7.fc1"]),
    ],
)
def test_quantization_names_the_layers_by_their_new_numbers(said: list[str], kept: list[str]) -> None:
    target = {**LLAMA, "quantization_config": {"quant_method": "fp8", "ignored_layers": said}}
    assert cut.cut(target, JOB).quantization == {"quant_method": "fp8", "ignored_layers": kept}


def test_settings_of_single_layers_go_with_their_layers() -> None:
    each = {"model.layers.2.mlp": {"bits": 8}, "model.layers.3.mlp": {"bits": 8}}
    made = cut.cut({**LLAMA, "quantization_config": {"quant_method": "auto", "quantized_layers": each}}, JOB)
    assert made.quantization["quantized_layers"] == {"model.layers.1.mlp": {"bits": 8}}


@pytest.mark.parametrize(
    ("quantization", "left", "word"),
    [
        ({"quant_method": "bitsandbytes", "load_in_4bit": True}, {}, "bitsandbytes"),
        ({"quant_method": "gptq", "bits": 4, "desc_act": True}, {"bits": 4, "desc_act": False}, "order"),
        (
            {"quant_method": "x", "config_groups": {"a": {"weights": {"actorder": "group"}}}},
            {"config_groups": {"a": {"weights": {"actorder": None}}}},
            "order",
        ),
    ],
)
def test_what_cannot_be_made_up_is_left_out_and_said(
    quantization: dict[str, Any], left: dict[str, Any], word: str
) -> None:
    made = cut.cut({**LLAMA, "quantization_config": quantization}, JOB)
    assert {name: value for name, value in made.quantization.items() if name != "quant_method"} == left
    assert len(made.changed) == 1
    assert word in made.changed[0]


@pytest.mark.parametrize("lacking", ["num_hidden_layers", "hidden_size"])
def test_a_configuration_without_sizes_is_refused(lacking: str) -> None:
    with pytest.raises(CannotShrink, match="does not say how"):
        cut.cut({name: value for name, value in LLAMA.items() if name != lacking}, JOB)


def test_the_weight_is_about_what_it_will_be() -> None:
    # Four layers of 384 experts of 3 × 7168 × 2048 weights in four bits and their scales, one of them twice.
    four_bits = 5 * 384 * 3 * 7168 * 2048 * 0.5 / 8
    assert four_bits < weigh.each(cut.cut(KIMI, JOB), 8, "bfloat16") < 1.5 * four_bits
    plain = {name: value for name, value in KIMI["text_config"].items() if name != "quantization_config"}
    assert weigh.each(cut.cut(plain, JOB), 8, "bfloat16") > 3 * weigh.each(cut.cut(KIMI, JOB), 8, "bfloat16")
    one_layer = 2 * 8192 * 128 * (64 + 8) + 3 * 8192 * 28672
    exact = 2 * (2 * 128256 * 8192 + 6 * one_layer)
    assert weigh.each(cut.cut(LLAMA, replace(JOB, layers=(2, 40, 50))), 1, "bfloat16") == exact


@pytest.mark.parametrize(
    ("quantization", "size"),
    [
        ({"quant_method": "fp8"}, 1.0),
        ({"quant_method": "mxfp4"}, 0.5),
        ({"quant_method": "awq", "bits": 4}, 0.5),
        ({"quant_algo": "NVFP4"}, 0.5),
        ({"config_groups": {"g": {"weights": {"num_bits": 4}, "input_activations": {"num_bits": 8}}}}, 0.5),
    ],
)
def test_quantized_weights_are_small(quantization: dict[str, Any], size: float) -> None:
    plain = weigh.each(cut.cut({**LLAMA, "vocab_size": 0}, JOB), 1, "bfloat16")
    made = weigh.each(cut.cut({**LLAMA, "vocab_size": 0, "quantization_config": quantization}, JOB), 1, "bfloat16")
    assert plain * size / 2 < made < plain * size / 2 * 1.7


def test_experts_are_cut_until_it_fits() -> None:
    needed = weigh.each(cut.cut(KIMI, JOB), 8, "bfloat16")
    assert thin.fitting(KIMI, JOB, "bfloat16", int(needed / thin.SHARE) + 1).experts == 384
    fewer = thin.fitting(KIMI, JOB, "bfloat16", int(needed / thin.SHARE) - 1)
    assert fewer.experts == 192
    assert fewer.changed == ("192 experts in each layer, so that it fits",)
    with pytest.raises(CannotShrink, match=r"5 layers of the target take about \d+\.\d GB on each worker"):
        thin.fitting(KIMI, JOB, "bfloat16", int(0.1 * GB))
    with pytest.raises(CannotShrink, match="6 layers"):
        thin.fitting(LLAMA, JOB, "bfloat16", int(0.1 * GB))


def test_fewer_experts_still_can_be_routed() -> None:
    grouped = {**KIMI["text_config"], "n_routed_experts": 256, "n_group": 8, "num_experts_per_tok": 8}
    assert list(cut.fewer_experts(cut.cut(grouped, JOB))) == [128, 64, 32, 16]
    odd = {**KIMI["text_config"], "n_routed_experts": 60, "n_group": 4, "num_experts_per_tok": 4}
    assert list(cut.fewer_experts(cut.cut(odd, JOB))) == []


@pytest.mark.parametrize(
    ("device", "wish", "reason"),
    [
        ("cpu", None, "the job computes on the CPU; `gate.thin = true` asks for it there as well"),
        ("cpu", False, "the job says `gate.thin = false`"),
        ("cuda", False, "the job says `gate.thin = false`"),
    ],
)
def test_it_is_left_out_with_a_reason(device: str, wish: bool | None, reason: str) -> None:  # noqa: FBT001 - a case
    assert thin.not_wanted(replace(JOB, device=device, gate=GateSpec(thin=wish))) == reason


@dataclass
class State:
    """A tensor's form."""

    shape: tuple[int, ...]
    dtype: str = "torch.bfloat16"


@pytest.mark.parametrize(
    ("states", "words"),
    [
        ([State((7, 64))], "of 1 layers"),
        ([State((7, 64)), State((7, 32))], "were expected"),
        ([State((6, 64)), State((6, 64))], "were expected"),
        ([State((7, 64)), State((7, 64), "torch.float32")], "bfloat16, float32; bfloat16 was expected"),
        ([State((7, 64), "torch.float16")] * 2, "float16; bfloat16 was expected"),
    ],
)
def test_states_of_another_form_are_refused(states: list[State], words: str) -> None:
    with pytest.raises(EngineError, match=words):
        thin.form(states, 7, 64, 2, "bfloat16")
    assert thin.form([State((7, 64))] * 2, 7, 64, 2, "bfloat16") == "bfloat16"


def test_cards_that_do_not_answer_are_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(thin, "ASKS", "import sys; print(7); print(10 ** 9 * int(sys.argv[1]))")
    assert thin._free(JOB) == 8 * 10**9
    monkeypatch.setattr(thin, "ASKS", "raise RuntimeError('no driver')")
    with pytest.raises(CannotShrink, match="RuntimeError: no driver"):
        thin._free(JOB)
    monkeypatch.setattr(thin, "ASKS", "import time; time.sleep(60)")
    monkeypatch.setattr(thin, "ASKING", 0.3)
    with pytest.raises(CannotShrink, match="timed out"):
        thin._free(JOB)
