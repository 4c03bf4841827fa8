from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from remote.prompts.tokens import Tokens, tokenise
from remote.schema import Job

if TYPE_CHECKING:
    from pathlib import Path


def tokens(tmp_path: Path, ids: list[int], config: object, longest: int = 100) -> Tokens:
    (tmp_path / "model").mkdir()
    if config is not None:
        (tmp_path / "model" / "config.json").write_text(config if isinstance(config, str) else json.dumps(config))
    dataset = tmp_path / "ready.jsonl"
    dataset.write_text(json.dumps({"input_ids": ids, "loss_mask": [1] * len(ids)}) + "\n")
    job = Job(
        name="j", engine="speculators", python="", workdir="", output="", model=str(tmp_path / "model"),
        dataset=str(dataset),
    )  # fmt: skip
    (one,) = tokenise(job, longest)
    return one


@pytest.mark.parametrize("config", [{"vocab_size": 10}, {"text_config": {"vocab_size": 10}}])
def test_a_token_beyond_the_vocabulary_is_a_problem(tmp_path: Path, config: object) -> None:
    one = tokens(tmp_path, [9, 10], config)
    assert one.problem == "has token 10, but the model's vocabulary ends at 9"


@pytest.mark.parametrize("config", [{"vocab_size": 11}, None, "{", "[]", {"vocab_size": "many"}, {"text_config": 3}])
def test_a_token_within_it_is_none(tmp_path: Path, config: object) -> None:
    assert tokens(tmp_path, [9, 10], config).problem is None


def test_ready_tokens_are_cut_to_the_longest_prompt(tmp_path: Path) -> None:
    one = tokens(tmp_path, list(range(20)), {"vocab_size": 100}, longest=7)
    assert (one.input_ids.tolist(), one.loss_mask) == ([0, 1, 2, 3, 4, 5, 6], b"\1" * 7)
