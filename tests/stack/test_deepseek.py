from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from tests.stack.conftest import Stack

pytestmark = pytest.mark.stack


@pytest.fixture(scope="module")
def told(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder: Path = tmp_path_factory.mktemp("deepseek")
    without_mla = {**stack.job.env, "VLLM_MLA_DISABLE": "1"}  # vLLM has no latent attention for CPUs
    cpu = dataclasses.replace(stack, job=dataclasses.replace(stack.job, env=without_mla))
    return cpu.script("deepseek_answers.py", stack.job.model, str(folder))


def test_a_mixture_of_experts_agrees_with_transformers(told: Any) -> None:
    assert max(told["medians"]) <= 0.02
    assert len(told["medians"]) == 3


@pytest.mark.parametrize(("model", "part"), [("plain", "model"), ("wrapped", "language_model.model")])
def test_the_decoder_is_found(told: Any, model: str, part: str) -> None:
    assert told[model] == part


def test_a_model_without_decoder_is_refused_by_what_it_lacks(told: Any) -> None:
    assert told["neither"].endswith("its decoder has no layers, start_layer, end_layer, norm, embed_input_ids")
