from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from remote.model.model_print import PIECE, fingerprint

if TYPE_CHECKING:
    from pathlib import Path

SIZE = 5 * PIECE


@pytest.fixture
def model(tmp_path: Path) -> Path:
    (tmp_path / "config.json").write_text('{"hidden_size": 64}')
    (tmp_path / "model.safetensors").write_bytes(b"w" * SIZE)
    (tmp_path / "tokenizer.json").write_text("{}")
    return tmp_path


def test_the_same_model_has_the_same_fingerprint_wherever_it_lies(
    model: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    copy = tmp_path_factory.mktemp("copy")
    for path in model.iterdir():
        (copy / path.name).write_bytes(path.read_bytes())
    assert fingerprint(str(model)) == fingerprint(str(copy)) != ""


@pytest.mark.parametrize("at", [0, SIZE // 2, SIZE - 1])
def test_other_weights_are_another_model(model: Path, at: int) -> None:
    before = fingerprint(str(model))
    weights = bytearray(b"w" * SIZE)
    weights[at] ^= 1
    (model / "model.safetensors").write_bytes(weights)
    assert fingerprint(str(model)) != before


def test_another_configuration_or_one_more_file_is_another_model_and_a_note_is_not(model: Path) -> None:
    before = fingerprint(str(model))
    (model / "README.md").write_text("note")
    assert fingerprint(str(model)) == before
    (model / "model-2.safetensors").write_bytes(b"")
    more = fingerprint(str(model))
    (model / "config.json").write_text('{"hidden_size": 65}')
    assert len({before, more, fingerprint(str(model))}) == 3


@pytest.mark.parametrize("name", ["", "owner/name", "/no/such/folder", "\0"])
def test_what_is_no_folder_has_none(name: str) -> None:
    assert fingerprint(name) == ""
