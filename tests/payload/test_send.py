"""Verb `send`: what it sends, and above all what it does not."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest

from local.streaming import Frame, Frames
from remote.schema import SendRequest
from tests import fetched

if TYPE_CHECKING:
    from tests.running import Lab


def sent(lab: Lab, **asked: Any) -> list[Frame]:
    frames, found = Frames(), []
    request = SendRequest(output=str(lab.output), **asked)
    with lab.host.stream("send", request, bundle=lab.bundle) as stream:
        while data := stream.read(20.0):
            found += frames.feed(data)
    assert found[-1].header["kind"] == "end"
    return found


def bytes_of(frames: list[Frame], name: str) -> bytes:
    parts = [(frame.header["offset"], frame.body) for frame in frames if frame.header.get("file") == name]
    at = parts[0][0]
    for offset, body in parts:
        assert offset == at
        at += len(body)
    return b"".join(body for _, body in parts)


def test_files_come_whole_in_the_order_asked_for(lab: Lab) -> None:
    made = fetched.folder(lab.output, range(5), size=3000)
    frames = sent(lab, manifest=True, indices=(3, 1))
    names = [frame.header.get("file") for frame in frames]
    assert names == ["manifest.jsonl", "data_3.pt", "data_1.pt", None]
    assert bytes_of(frames, "manifest.jsonl") == (lab.output / "manifest.jsonl").read_bytes()
    assert bytes_of(frames, "data_3.pt") == made[3]
    assert {frame.header["of"] for frame in frames if frame.header.get("file", "").endswith("pt")} == {3000}


@pytest.mark.parametrize("offset", [0, 1, 2_999_999, 3_000_000, 3_000_001, -7])
def test_a_file_goes_on_where_it_was_left(lab: Lab, offset: int) -> None:
    made = fetched.folder(lab.output, [7], size=3_000_000)
    frames = sent(lab, indices=(7,), offsets={"7": offset})
    assert bytes_of(frames, "data_7.pt") == made[7][max(0, offset) :]


def test_an_empty_file_is_told(lab: Lab) -> None:
    fetched.folder(lab.output, [0], size=0)
    frames = sent(lab, indices=(0,))
    assert (frames[0].header["kind"], frames[0].header["of"]) == ("data", 0)


def test_only_plain_files_are_sent(lab: Lab) -> None:
    fetched.folder(lab.output, [1])
    (lab.output / "data_2.pt").symlink_to(lab.output / "data_1.pt")
    (lab.output / "data_3.pt").mkdir()
    os.mkfifo(lab.output / "data_4.pt")
    frames = sent(lab, indices=(0, 2, 3, 4, 1))
    told = {frame.header["file"]: frame.header["why"] for frame in frames if frame.header["kind"] == "not"}
    assert set(told) == {"data_0.pt", "data_2.pt", "data_3.pt", "data_4.pt"}
    assert "No such file" in told["data_0.pt"]
    assert told["data_4.pt"] == "is no plain file"
    assert len(bytes_of(frames, "data_1.pt")) == 1000


def test_a_number_is_no_path(lab: Lab) -> None:
    fetched.folder(lab.output, [1])
    (lab.output.parent / "data_-1.pt").write_bytes(b"outside")
    (frame, _) = sent(lab, indices=(-1,))
    assert (frame.header["kind"], frame.body) == ("not", b"")


@pytest.mark.parametrize("what", ["nothing", "a file"])
def test_no_folder_is_an_error_that_says_so(lab: Lab, what: str) -> None:
    if what == "a file":
        lab.output.write_text("")
    (end,) = sent(lab, manifest=True)
    assert str(lab.output) in end.header["error"]


def test_a_reader_that_goes_away_is_no_crash(lab: Lab) -> None:
    fetched.folder(lab.output, range(3), size=4_000_000)
    with lab.host.stream("send", SendRequest(output=str(lab.output), indices=(0, 1, 2)), bundle=lab.bundle) as stream:
        assert stream.read(20.0)
