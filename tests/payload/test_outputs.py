from __future__ import annotations

import dataclasses
from array import array
from pathlib import Path, PurePosixPath

import pytest

from remote import outputs, wire
from remote.paths import Output
from remote.schema import ManifestEntry
from remote.tokens import Tokens, digest

SAMPLE = Tokens(3, "train.jsonl:4", array("i", [5, 6, 7]), b"\0\1\1")
ENTRY = ManifestEntry(
    index=3, file="data_3.pt", tokens=3, shape=(2, 3, 8), dtype="bfloat16", size=900, sha256="a" * 64,
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
