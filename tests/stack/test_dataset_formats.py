from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tests.stack.conftest import Stack

pytestmark = pytest.mark.stack


@pytest.fixture(scope="module")
def told(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> Any:
    return stack.script("dataset_formats.py", str(tmp_path_factory.mktemp("datasets")))


@pytest.mark.parametrize("name", ["good", "good.parquet"])
def test_conversations_are_read(told: Any, name: str) -> None:
    assert [index for index, _, _ in told[name]] == list(range(300))
    content = [{"role": "human", "content": "hé 299"}, {"role": "gpt", "content": "yes"}]
    assert told[name][299] == [299, f"{name}: row 300", content]


@pytest.mark.parametrize("name", ["ready", "ready.parquet"])
def test_ready_tokens_are_read(told: Any, name: str) -> None:
    assert [ids for _, _, ids in told[name]] == [[0, 1], [1, 1], [2, 1]]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("bad", "bad: row 4: 1 input_ids but 0 in loss_mask"),
        ("bad.parquet", "bad.parquet: row 4: 1 input_ids but 0 in loss_mask"),
        ("cut.parquet", "cut.parquet: not a whole parquet file ("),
        ("splits", "holds the splits train; name the folder of one of them"),
        ("other", "other: not a folder that `save_to_disk` of datasets has written"),
    ],
)
def test_what_cannot_be_read_is_named(told: Any, name: str, said: str) -> None:
    assert said in told[name]
