"""A model folder in every state between absent and whole."""

import json
import os
import shutil
from pathlib import Path

import pytest

from remote.model import model_checks, model_folder, safetensors_header

OLD = 1_000_000_000


def _tensors(path: Path, names: list[str], width: int = 16) -> int:
    header = {"__metadata__": {"format": "pt"}}
    for index, name in enumerate(names):
        header[name] = {"dtype": "BF16", "shape": [width], "data_offsets": [index * 2 * width, (index + 1) * 2 * width]}
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + b"\1" * (2 * width * len(names)))
    return 2 * width * len(names)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A whole model of two shards, written long ago."""
    folder = tmp_path / "model of a user"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps({"architectures": ["LlamaForCausalLM"], "num_hidden_layers": 2}))
    (folder / "tokenizer.json").write_text("{}")
    (folder / "tokenizer_config.json").write_text(json.dumps({"chat_template": "{{ messages }}"}))
    shards = {f"model-0000{n}-of-00002.safetensors": [f"layer.{n}.a", f"layer.{n}.b"] for n in (1, 2)}
    total = sum(_tensors(folder / shard, names) for shard, names in shards.items())
    weights = {name: shard for shard, names in shards.items() for name in names}
    (folder / model_folder.INDEX).write_text(json.dumps({"metadata": {"total_size": total}, "weight_map": weights}))
    _age(folder)
    return folder


def _age(folder: Path) -> None:
    for path in folder.rglob("*"):
        os.utime(path, (OLD, OLD))


def _rules(folder: Path, *, conversations: bool = True) -> list[str]:
    found = model_checks.judge(model_folder.read(folder, wait=lambda _seconds: None), conversations=conversations)
    return [finding.rule for finding in found]


def test_a_whole_model_has_no_finding(folder: Path) -> None:
    assert _rules(folder) == []
    assert model_folder.read(folder).weights == sum(path.stat().st_size for path in folder.glob("*.safetensors"))


def test_a_single_file_model_is_whole_without_index(folder: Path) -> None:
    for path in [*folder.glob("*.safetensors"), folder / model_folder.INDEX]:
        path.unlink()
    _tensors(folder / "model.safetensors", ["a"])
    assert _rules(folder) == []


def test_links_into_a_hub_cache_are_files_like_any_other(folder: Path, tmp_path: Path) -> None:
    blob = tmp_path / "blob"
    shard = folder / "model-00001-of-00002.safetensors"
    shutil.move(shard, blob)
    shard.symlink_to(blob)
    assert _rules(folder) == []
    blob.unlink()
    assert _rules(folder) == ["model-shard-damaged"]


@pytest.mark.parametrize("cut", [0, 3, 8, 40, -1])
def test_a_truncated_shard_is_named(folder: Path, cut: int) -> None:
    shard = folder / "model-00002-of-00002.safetensors"
    data = shard.read_bytes()
    shard.write_bytes(data[:cut])
    _age(folder)
    (finding,) = model_checks.judge(model_folder.read(folder))
    assert finding.rule == "model-shard-damaged"
    assert finding.file == str(shard)
    assert "again" in finding.message


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"version https:" + b"//git-lfs\noid sha256:00\nsize 5\n", "Git LFS"),
        (bytes(64), "not written yet"),
        (b"\xff" * 64, "does not begin with"),
        ((4).to_bytes(8, "little") + b"[[[[" + bytes(9), "header cannot be read"),
        ((2).to_bytes(8, "little") + b"[]" + bytes(9), "header cannot be read"),
        ((12).to_bytes(8, "little") + b'{"a":{"b":1}}'[:12], "header cannot be read"),
    ],
)
def test_files_that_are_no_safetensors_say_what_they_are(tmp_path: Path, data: bytes, says: str) -> None:
    path = tmp_path / "x.safetensors"
    path.write_bytes(data)
    header = safetensors_header.read(path)
    assert header.error is not None
    assert says in header.error


def test_a_longer_file_is_not_whole(folder: Path) -> None:
    with (folder / "model-00001-of-00002.safetensors").open("ab") as file:
        file.write(b"x")
    _age(folder)
    assert _rules(folder) == ["model-shard-damaged"]


def test_missing_shards_are_counted_and_named(folder: Path) -> None:
    (folder / "model-00002-of-00002.safetensors").unlink()
    (finding,) = model_checks.judge(model_folder.read(folder))
    assert finding.rule == "model-shard-missing"
    assert "1 of the 2 shards" in finding.message
    assert "model-00002-of-00002.safetensors" in finding.message


@pytest.mark.parametrize(
    "name",
    [
        "model-00003.safetensors.incomplete",
        "model.safetensors.part",
        ".model-00001-of-00002.safetensors.Xa3k9Q",
        ".cache/huggingface/download/abc.def.incomplete",
        "x.safetensors.aria2",
    ],
)
def test_leftovers_of_a_download_are_seen(folder: Path, name: str) -> None:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"x")
    _age(folder)
    (finding,) = model_checks.judge(model_folder.read(folder))
    assert finding.rule == "model-unfinished"
    assert name in finding.message


@pytest.mark.parametrize("ahead", [0.0, 600.0], ids=["of now", "by the clock of another machine"])
def test_a_file_that_grows_while_we_look_is_seen(folder: Path, ahead: float) -> None:
    for path in folder.iterdir():
        os.utime(path, (1.0, 1.0))
    shard = folder / "model-00002-of-00002.safetensors"

    def grow(_seconds: float) -> None:
        with shard.open("ab") as file:
            file.write(b"x")

    grow(0)
    now = shard.stat().st_mtime
    os.utime(shard, (now + ahead, now + ahead))
    found = model_checks.judge(model_folder.read(folder, wait=grow))
    assert [finding.rule for finding in found] == ["model-growing"]
    assert found[0].file == str(shard)


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        (lambda f: (f / "config.json").unlink(), "model-config"),
        (lambda f: (f / "config.json").write_text('{"a": 1,\n  b'), "model-config"),
        (lambda f: (f / "config.json").write_bytes(b"\xff\xfe"), "model-config"),
        (lambda f: (f / "config.json").write_text("[]"), "model-config"),
        (lambda f: (f / "tokenizer.json").unlink(), "tokenizer-missing"),
        (lambda f: (f / "tokenizer_config.json").write_text("{}"), "chat-template-missing"),
        (lambda f: (f / model_folder.INDEX).write_text("{"), "model-index"),
        (lambda f: (f / model_folder.INDEX).write_text("[]"), "model-index"),
        (lambda f: (f / model_folder.INDEX).unlink(), "model-index"),
        (lambda f: [path.unlink() for path in f.glob("model*")], "model-weights-missing"),
        (
            lambda f: (f / "config.json").write_text(
                json.dumps({"architectures": ["X"], "auto_map": {"AutoConfig": "configuration_x.XConfig"}})
            ),
            "model-code-missing",
        ),
        (
            lambda f: (f / model_folder.INDEX).write_text(
                (f / model_folder.INDEX).read_text().replace("layer.1.a", "layer.1.z")
            ),
            "model-index-mismatch",
        ),
        (
            lambda f: (f / model_folder.INDEX).write_text(
                (f / model_folder.INDEX).read_text().replace('"total_size": 128', '"total_size": 7')
            ),
            "model-index-total",
        ),
    ],
)
def test_each_fault_has_its_rule(folder: Path, change, rule: str) -> None:  # noqa: ANN001 - a function of the folder
    change(folder)
    _age(folder)
    assert _rules(folder) == [rule]


def test_a_template_in_a_file_of_its_own_counts(folder: Path) -> None:
    (folder / "tokenizer_config.json").write_text("{}")
    (folder / "chat_template.jinja").write_text("{{ messages }}")
    assert _rules(folder) == []


def test_config_error_names_its_line(folder: Path) -> None:
    (folder / "config.json").write_text('{"a": 1,\n  b')
    (finding,) = model_checks.judge(model_folder.read(folder))
    assert finding.line == 2


@pytest.mark.parametrize("make", [lambda _path: None, lambda path: path.write_text("x")])
def test_no_folder_is_one_finding(tmp_path: Path, make) -> None:  # noqa: ANN001 - a function of the path
    path = tmp_path / "model"
    make(path)
    (finding,) = model_checks.judge(model_folder.read(path))
    assert finding.rule == "model-missing"
    assert str(path) in finding.message


def test_an_empty_folder_tells_everything_at_once(tmp_path: Path) -> None:
    assert _rules(tmp_path) == ["model-config", "model-weights-missing", "tokenizer-missing", "chat-template-missing"]


def test_space_set_aside_and_not_filled_is_a_warning(folder: Path) -> None:
    shard = folder / "model-00002-of-00002.safetensors"
    size = 4 << 20
    header = json.dumps({n: {"data_offsets": [0, size]} for n in ("layer.2.a", "layer.2.b")}).encode()
    with shard.open("wb") as file:
        file.write(len(header).to_bytes(8, "little") + header)
        file.truncate(8 + len(header) + size)
    (folder / model_folder.INDEX).write_text(
        (folder / model_folder.INDEX).read_text().replace(": 128", f": {64 + size}")
    )
    _age(folder)
    (finding,) = model_checks.judge(model_folder.read(folder))
    assert (finding.rule, finding.severity) == ("model-shard-sparse", "warning")
