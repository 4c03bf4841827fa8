from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from remote.prompts.dataset import DatasetError, Sample, read

if TYPE_CHECKING:
    from pathlib import Path


def written(tmp_path: Path, *lines: str | bytes) -> str:
    path = tmp_path / "train.jsonl"
    path.write_bytes(b"\n".join(line.encode() if isinstance(line, str) else line for line in lines) + b"\n")
    return str(path)


def refusal(path: str) -> str:
    with pytest.raises(DatasetError) as caught:
        list(read(path))
    return str(caught.value)


def test_both_spellings_of_a_conversation_are_one(tmp_path: Path) -> None:
    share = {"conversations": [{"from": "human", "value": "hé"}, {"from": "gpt", "value": ""}]}
    chat = {"id": 7, "messages": [{"role": "human", "content": "hé"}, {"role": "gpt", "content": ""}]}
    one, other = read(written(tmp_path, json.dumps(share), json.dumps(chat, ensure_ascii=False)))
    assert (
        one.conversation == other.conversation == ({"role": "human", "content": "hé"}, {"role": "gpt", "content": ""})
    )


def test_samples_are_numbered_by_position_and_placed_by_line(tmp_path: Path) -> None:
    ready = '{"input_ids": [3, 4], "loss_mask": [0, 1]}'
    samples = list(read(written(tmp_path, "", ready, "   ", ready)))
    assert [(sample.index, sample.where) for sample in samples] == [(0, "train.jsonl:2"), (1, "train.jsonl:4")]
    assert samples[0] == Sample(0, "train.jsonl:2", input_ids=(3, 4), loss_mask=(0, 1))


def test_a_byte_order_mark_and_windows_line_ends_are_no_fault(tmp_path: Path) -> None:
    (sample,) = read(written(tmp_path, b'\xef\xbb\xbf{"input_ids": [3], "loss_mask": [1]}\r'))
    assert sample.input_ids == (3,)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("{", "train.jsonl:2: not JSON (Expecting property name enclosed in double quotes, column 2)"),
        (b'{"a": "\xff"}', "train.jsonl:2: not UTF-8 (byte 8 of the line)"),
        ("[" * 100_000, "train.jsonl:2: not JSON ("),
        ("1" * 5000, "train.jsonl:2: not JSON ("),
        ("[1]", "train.jsonl:2: expected an object, found list"),
        ("{}", "train.jsonl:2: has neither `conversations`, `messages` nor `input_ids` (found nothing)"),
        ('{"text": "x", "a": 1}', "(found a, text)"),
        ('{"conversations": null}', "has neither"),
        ('{"conversations": []}', "train.jsonl:2: conversations: expected a list of turns, at least one"),
        ('{"messages": "hello"}', "train.jsonl:2: messages: expected a list of turns, at least one"),
        ('{"messages": ["hello"]}', "train.jsonl:2: messages[0]: expected an object, found str"),
        ('{"messages": [{"role": "user"}]}', "train.jsonl:2: messages[0]: has no text under `value` or `content`"),
        ('{"messages": [{"content": "x"}]}', "train.jsonl:2: messages[0]: has no text under `from` or `role`"),
        ('{"messages": [{"role": "user", "content": [1]}]}', "messages[0]: has no text under `value` or `content`"),
        ('{"input_ids": [1, 2]}', "train.jsonl:2: loss_mask: expected a list of whole numbers"),
        ('{"input_ids": [1, 2], "loss_mask": [1]}', "train.jsonl:2: 2 input_ids but 1 in loss_mask"),
        ('{"input_ids": [1, 2.5], "loss_mask": [1, 1]}', "2: input_ids[1]: expected a whole number, found 2.5"),
        ('{"input_ids": [1, true], "loss_mask": [1, 1]}', "input_ids[1]: expected a whole number, found True"),
        ('{"input_ids": [-1], "loss_mask": [1]}', "input_ids must be 0 or more"),
        ('{"input_ids": [1], "loss_mask": [2]}', "loss_mask 0 or 1"),
        ('{"input_ids": [], "loss_mask": []}', "input_ids: expected at least one token"),
    ],
)  # fmt: skip
def test_a_bad_sample_is_named(tmp_path: Path, line: str | bytes, said: str) -> None:
    path = written(tmp_path, '{"input_ids": [3], "loss_mask": [1]}', line)
    assert said in refusal(path)
    assert refusal(path).count("\n") == 0


def test_samples_before_a_bad_one_are_given(tmp_path: Path) -> None:
    samples = read(written(tmp_path, '{"input_ids": [3], "loss_mask": [1]}', "{"))
    assert next(samples).index == 0


@pytest.mark.parametrize("lines", [[], ["", "  "]])
def test_an_empty_dataset_is_none(tmp_path: Path, lines: list[str]) -> None:
    assert refusal(written(tmp_path, *lines)) == "train.jsonl: holds no sample"


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    path = str(tmp_path / "no such file.jsonl")
    assert refusal(path) == f"{path}: cannot be read (No such file or directory)"
