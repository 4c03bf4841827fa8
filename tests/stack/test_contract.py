"""Contract and inputs on the real vLLM, its registry and its model classes: one import for all tests."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from remote import wire

if TYPE_CHECKING:
    from tests.stack.conftest import Stack

pytestmark = pytest.mark.stack
KIMI = Path(__file__).parent.parent / "data" / "kimi-k2.5"
WORKER = "speculators/data_generation/custom_worker.py"


@pytest.fixture(scope="module")
def answers(stack: Stack) -> dict[str, Any]:
    """Ask once; the models but Kimi's are configurations alone, which is all that the contract needs."""
    job = stack.root / "job.json"
    job.write_text(wire.dumps(stack.job))
    models = [str(KIMI)]
    for name in ("HunYuanDenseV1ForCausalLM", "Qwen3ForCausalLM", "NoSuchModelForCausalLM"):
        folder = stack.root / name
        folder.mkdir()
        (folder / "config.json").write_text(json.dumps({"architectures": [name], "num_hidden_layers": 8}))
        models.append(str(folder))
    given: dict[str, Any] = stack.script("contract_answers.py", str(job), *models)
    return given


def test_a_tiny_llama_on_the_patched_stack_passes(answers: dict[str, Any], stack: Stack) -> None:
    contract, inputs = answers["job"]
    assert (contract["id"], contract["status"], contract["findings"]) == ("contract", "pass", [])
    assert contract["facts"]["pair"]["known"] == "good"
    assert contract["facts"]["model"]["layer"] == ["vllm.model_executor.models.llama.LlamaDecoderLayer"]
    assert inputs["id"] == "inputs"
    assert {finding["severity"] for finding in inputs["findings"]} <= {"warning"}
    lengths = inputs["facts"]["lengths"]
    assert lengths["complete"]
    assert lengths["longest"] == stack.job.max_model_len - 1
    assert lengths["truncated"] >= 2  # of the ready samples, those of more than that
    assert inputs["facts"]["output"]["samples"] == lengths["seen"] == inputs["facts"]["dataset"]["samples"]


def test_kimi_as_released_is_refused_from_its_configuration_alone(answers: dict[str, Any]) -> None:
    (check,) = answers["as released: kimi-k2.5"]
    found = {finding["rule"]: finding for finding in check["findings"]}
    assert check["status"] == "fail"
    refused = found["model-refused"]
    assert "KimiK25ForConditionalGeneration, which does not declare SupportsEagle3" in refused["message"]
    assert "DeepseekV2ForCausalLM does not declare SupportsEagle3 either" in refused["message"]
    assert refused["file"].endswith(WORKER)
    assert "supports_eagle3" in refused["text"]
    assert "`model.language_model.model`" in found["model-path"]["message"]


def test_kimi_passes_with_the_series(answers: dict[str, Any]) -> None:
    (check,) = answers["kimi-k2.5"]
    assert (check["status"], check["findings"]) == ("pass", [])
    model = check["facts"]["model"]
    assert model["captured"] == ["vllm.model_executor.models.deepseek_v2.DeepseekV2Model"]
    assert model["layer"] == ["vllm.model_executor.models.deepseek_v2.DeepseekV2DecoderLayer"]


@pytest.mark.parametrize("name", ["Qwen3ForCausalLM", "kimi-k2.5"])
def test_the_renamed_method_is_found_as_released(answers: dict[str, Any], name: str) -> None:
    (check,) = answers[f"as released: {name}"]
    (finding,) = [finding for finding in check["findings"] if finding["rule"] == "model-attribute"]
    assert finding["text"].strip() == "else self.get_input_embeddings(input_ids)"
    assert "`embed_input_ids` takes the same arguments" in finding["message"]


def test_an_architecture_that_fits_passes(answers: dict[str, Any]) -> None:
    assert answers["Qwen3ForCausalLM"][0]["findings"] == []


def test_layers_that_give_another_number_of_values_are_seen(answers: dict[str, Any]) -> None:
    (finding,) = answers["HunYuanDenseV1ForCausalLM"][0]["findings"]
    assert finding["rule"] == "layer-result"
    assert "gives 3" in finding["message"]


def test_an_architecture_that_vllm_does_not_know_is_named(answers: dict[str, Any]) -> None:
    (finding,) = answers["NoSuchModelForCausalLM"][0]["findings"]
    assert finding["rule"] == "architecture"
    assert "NoSuchModelForCausalLM" in finding["message"]
