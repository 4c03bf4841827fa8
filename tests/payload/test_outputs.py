from __future__ import annotations

import dataclasses
import hashlib
from array import array
from pathlib import Path, PurePosixPath

import pytest

from remote import wire
from remote.paths import Output
from remote.prompts.tokens import Tokens, digest
from remote.results import manifest, outputs
from remote.schema import ManifestClean, ManifestDamage, ManifestEntry

SAMPLE = Tokens(3, "train.jsonl:4", array("i", [5, 6, 7]), b"\0\1\1")
ENTRY = ManifestEntry(
    index=3, file="data_3.pt", tokens=3, shape=(2, 3, 8), dtype="bfloat16", size=900,
    sha256=hashlib.sha256(b"x" * 900).hexdigest(),
    tokens_sha256=SAMPLE.sha256, layers=(1, 2),
)  # fmt: skip


def folder(tmp_path: Path, *lines: str, files: dict[str, int] | None = None) -> Output:
    (tmp_path / "manifest.jsonl").write_text("".join(lines))
    for name, size in (files or {}).items():
        (tmp_path / name).write_bytes(b"x" * size)
    return Output(PurePosixPath(tmp_path))


def line(entry: ManifestEntry) -> str:
    return wire.dumps(entry) + "\n"


def test_the_last_line_of_a_sample_counts(tmp_path: Path) -> None:
    later = dataclasses.replace(ENTRY, size=901)
    assert outputs.read_manifest(folder(tmp_path, line(ENTRY), line(later))) == {3: later}


@pytest.mark.parametrize("torn", ['{"schema": 1, "index"', "\0\0\0\n", "\n", '{"schema": 9}\n', "\udcff\n", "[]\n"])
def test_lines_that_cannot_be_read_are_passed_over(tmp_path: Path, torn: str) -> None:
    output = folder(tmp_path)
    data = torn.encode("utf-8", "surrogateescape")
    Path(output.manifest).write_bytes(line(ENTRY).encode() + data)
    assert outputs.read_manifest(output) == {3: ENTRY}


def test_no_manifest_is_an_empty_one(tmp_path: Path) -> None:
    assert outputs.read_manifest(Output(PurePosixPath(tmp_path))) == {}


def test_a_sample_that_stands_is_not_missing(tmp_path: Path) -> None:
    found = outputs.find_missing(folder(tmp_path, line(ENTRY), files={"data_3.pt": 900}), [SAMPLE], (1, 2))
    assert (found.samples, found.done, found.tokens_done) == ((), 1, 3)


@pytest.mark.parametrize(
    ("files", "layers", "sample"),
    [
        ({}, (1, 2), SAMPLE),
        ({"data_3.pt": 899}, (1, 2), SAMPLE),
        ({"data_3.pt": 900}, (2, 1), SAMPLE),
        ({"data_3.pt": 900}, (1, 2), dataclasses.replace(SAMPLE, input_ids=array("i", [5, 6, 8]))),
        ({"data_3.pt": 900}, (1, 2), dataclasses.replace(SAMPLE, loss_mask=b"\0\0\1")),
    ],
    ids=["no file", "another size", "another order of layers", "other tokens", "another mask"],
)
def test_what_does_not_stand_is_missing(
    tmp_path: Path, files: dict[str, int], layers: tuple[int, ...], sample: Tokens
) -> None:
    found = outputs.find_missing(folder(tmp_path, line(ENTRY), files=files), [sample], layers)
    assert (found.samples, found.done) == ((sample,), 0)


def test_the_folder_is_made_and_swept_of_unfinished_files_only(tmp_path: Path) -> None:
    output = Output(PurePosixPath(tmp_path / "new" / "folder"))
    outputs.find_missing(output, [SAMPLE], ())
    (tmp_path / "new/folder/.data_3.pt.x8k.tmp").write_bytes(b"")
    (tmp_path / "new/folder/.mine.tmp").write_bytes(b"")
    outputs.find_missing(output, [SAMPLE], ())
    assert [path.name for path in (tmp_path / "new/folder").iterdir()] == [".mine.tmp"]


def test_only_sample_files_are_counted(tmp_path: Path) -> None:
    names = ["data_3.pt", "data_03x.pt", "xdata_4.pt", "data_5.pt.tmp", "data_-1.pt"]
    output = folder(tmp_path, files=dict.fromkeys(names, 1))
    (tmp_path / "data_9.pt").mkdir()
    assert outputs.sample_sizes(output) == {3: 1}


def test_files_are_hashed_in_a_stream(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"abc")
    assert outputs.sha256_of(path) == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"


def test_tokens_and_mask_have_names_of_their_own() -> None:
    names = {digest(array("i", ids), mask) for ids, mask in (([1], b"\0"), ([1], b"\1"), ([2], b"\0"), ([], b"\0"))}
    assert len(names) == 4


@pytest.mark.parametrize("lines", [[], [line(dataclasses.replace(ENTRY, index=4, layers=(2, 1)))]])
def test_a_file_without_a_line_is_not_adopted_in_a_folder_of_other_layers(tmp_path: Path, lines: list[str]) -> None:
    """The file itself does not say which layers it holds."""
    found = outputs.find_missing(folder(tmp_path, *lines, files={"data_3.pt": 900}), [SAMPLE], (1, 2))
    assert (found.samples, found.adopted) == ((SAMPLE,), 0)
    assert len(outputs.read_manifest(Output(PurePosixPath(tmp_path)))) == len(lines)


CLEAN, DAMAGE = (
    wire.dumps(ManifestClean(clean=True)) + "\n",
    wire.dumps(ManifestDamage(index=3, damaged="zeros")) + "\n",
)


def missing(output: Output, sample: Tokens = SAMPLE, model: str = "") -> outputs.Missing:
    return outputs.find_missing(output, [sample], (1, 2), model)


def test_a_file_of_the_right_size_that_changed_after_a_crash_is_computed_again_and_stays_condemned(
    tmp_path: Path,
) -> None:
    output = folder(tmp_path, line(ENTRY), files={"data_3.pt": 900})
    Path(output.sample(3)).write_bytes(b"x" * 899 + b"y")
    found = missing(output)
    assert found.samples == (SAMPLE,)
    assert found.damaged == ("data_3.pt has not the SHA-256 that the manifest says",)
    Path(output.sample(3)).write_bytes(b"x" * 900)
    assert missing(output).samples == (SAMPLE,)
    manifest.record(output, ENTRY)
    assert missing(output).samples == ()


def test_what_was_written_before_a_clean_end_is_not_hashed_again(tmp_path: Path) -> None:
    output = folder(tmp_path, line(ENTRY), CLEAN, files={"data_3.pt": 900})
    Path(output.sample(3)).write_bytes(b"x" * 899 + b"y")
    assert missing(output).samples == ()


def test_what_was_hashed_once_is_vouched_for(tmp_path: Path) -> None:
    output = folder(tmp_path, line(ENTRY), files={"data_3.pt": 900})
    assert missing(output).samples == ()
    Path(output.sample(3)).write_bytes(b"x" * 899 + b"y")
    assert missing(output).samples == ()
    assert Path(output.manifest).read_text() == line(ENTRY) + CLEAN


def test_too_much_to_hash_is_not_hashed_and_not_vouched_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outputs, "HASHED", 899)
    output = folder(tmp_path, line(ENTRY), files={"data_3.pt": 900})
    assert missing(output).samples == ()
    assert Path(output.manifest).read_text() == line(ENTRY)


@pytest.mark.parametrize(
    ("content", "stands"),
    [(b"PK\x03\x04" + b"x" * 874 + b"PK\x05\x06" + b"\0" * 18, 1), (b"PK\x03\x04" + b"x" * 896, 0),
     (b"x" * 800 + b"\0" * 100, 0), (b"\0" * 900, 0), (b"x" * 900, 1)],
    ids=["whole", "no end", "zeros at the end", "zeros", "no archive"],
)  # fmt: skip
def test_a_file_whose_end_was_never_written_is_found_from_a_few_bytes(
    tmp_path: Path, content: bytes, stands: int
) -> None:
    output = folder(tmp_path, line(ENTRY), CLEAN, files={"data_3.pt": 900})
    Path(output.sample(3)).write_bytes(content)
    assert missing(output).samples == (SAMPLE,)[stands:]


def test_a_sample_that_verify_condemned_is_computed_again_even_where_its_file_could_be_adopted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outputs, "_adopt", lambda *_: True)
    other = line(dataclasses.replace(ENTRY, index=4))
    output = folder(tmp_path, line(ENTRY), other, CLEAN, DAMAGE, files={"data_3.pt": 900})
    assert missing(output).samples == (SAMPLE,)
    output = folder(tmp_path, other, files={"data_3.pt": 900})
    assert missing(output).adopted == 1


def test_only_the_word_that_was_found_wrong_is_taken_back(tmp_path: Path) -> None:
    output = folder(tmp_path, line(ENTRY))
    assert not manifest.condemn(output, dataclasses.replace(ENTRY, sha256="b" * 64), "was written anew since")
    assert manifest.read(output).entries == {3: ENTRY}
    assert manifest.condemn(output, ENTRY, "is all zeros")
    assert manifest.read(output).entries == {}
    assert manifest.read(output).condemned == {3}


def test_a_manifest_that_is_torn_is_closed_before_the_next_word(tmp_path: Path) -> None:
    output = folder(tmp_path, line(ENTRY), line(ENTRY)[:40])
    assert manifest.condemn(output, ENTRY, "is all zeros")
    assert manifest.read(output).condemned == {3}


def test_samples_of_another_model_are_not_mixed_silently(tmp_path: Path) -> None:
    output = folder(tmp_path, line(dataclasses.replace(ENTRY, model="m1")), files={"data_3.pt": 900})
    assert missing(output, model="m1").samples == ()
    assert missing(output, model="").samples == ()  # a model that cannot be looked at says nothing
    with pytest.raises(outputs.OutputMixed, match=r"holds 1 samples of another model \(m1, this one is m2\): choose"):
        missing(output, model="m2")
    with pytest.raises(outputs.OutputMixed):  # another tokenizer makes other tokens of the same dataset
        missing(output, dataclasses.replace(SAMPLE, loss_mask=b"\1\1\1"), model="m2")
    Path(output.sample(3)).unlink()
    assert missing(output, model="m2").samples == (SAMPLE,)


def test_samples_of_a_folder_that_knew_no_models_go_on_counting(tmp_path: Path) -> None:
    assert missing(folder(tmp_path, line(ENTRY), files={"data_3.pt": 900}), model="m2").samples == ()


def test_files_that_are_not_of_the_dataset_are_put_aside_and_taken_back(tmp_path: Path) -> None:
    stranger = dataclasses.replace(ENTRY, index=7, file="data_7.pt")
    files = {"data_3.pt": 900, "data_7.pt": 900, "data_8.pt": 5, "mine.pt": 4}
    output = folder(tmp_path, line(ENTRY), line(stranger), CLEAN, files=files)
    assert missing(output).aside == 2
    assert sorted(path.name for path in tmp_path.glob("*pt*")) == [
        "data_3.pt", "data_7.pt.extra", "data_8.pt.extra", "mine.pt",
    ]  # fmt: skip
    more = [SAMPLE, dataclasses.replace(SAMPLE, index=7), dataclasses.replace(SAMPLE, index=8)]
    found = outputs.find_missing(output, more, (1, 2))
    assert (found.done, found.samples) == (2, (more[2],))
    assert Path(output.sample(7)).exists()
