"""A stream of samples from a sender that lies, stutters or breaks off: nothing wrong ever gets a sample's name."""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

import pytest

from local.errors import Denied, GaveUp, JobFailed, LinkLost, PayloadCrashed
from local.fetching import arriving, plan
from local.fetching import crew as crews
from local.fetching.arriving import Arriving, Landing
from local.fetching.place import Place
from local.fetching.stream import Ended, Hearers, SampleStream, Source, read_manifest
from local.links.fake import FakeStream
from remote.channel import FRAME, MARK
from tests.fetched import entry

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from local.host import Host
    from remote.schema import SendRequest

GOOD = {3: b"three " * 50, 7: b"seven " * 50}
ENTRIES = [entry(index, data) for index, data in GOOD.items()]
SIZE = 300


def frame(header: dict[str, Any], body: bytes = b"") -> bytes:
    return MARK + FRAME + b" " + json.dumps({**header, "size": len(body)}).encode() + b"\n" + body


def part(index: int, data: bytes, offset: int = 0, of: Any = SIZE, file: Any = None) -> bytes:
    return frame({"kind": "data", "file": file or f"data_{index}.pt", "offset": offset, "of": of}, data)


END = frame({"kind": "end"})
WHOLE = [part(3, GOOD[3]), part(7, GOOD[7]), END]


@dataclass
class Sender:
    """A host whose every stream is told by a script; the last one is repeated."""

    scripts: list[Sequence[bytes | Exception] | Exception]
    asked: list[SendRequest] = field(default_factory=list)
    name: str = "gpu01"

    def stream(self, verb: str, request: SendRequest, *, bundle: str) -> FakeStream:
        assert (verb, bundle) == ("send", "b")
        self.asked.append(request)
        script = self.scripts.pop(0) if len(self.scripts) > 1 else self.scripts[0]
        if isinstance(script, Exception):
            raise script
        return FakeStream(script)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    made = Place(tmp_path)
    made.make()
    return made


def stream(place: Place, sender: Sender, **more: Any) -> SampleStream:
    made = SampleStream(
        Source(cast("Host", sender), "b", "/out"), place, ENTRIES, Hearers(), more.pop("patience", 5.0), **more
    )
    made._sleep = lambda _: None  # type: ignore[method-assign]
    return made


def standing(place: Place) -> dict[int, bytes]:
    return {int(path.stem[5:]): path.read_bytes() for path in place.samples.glob("data_*")}


@pytest.mark.parametrize(
    "noise",
    [
        part(9, b"x" * SIZE), part(3, b"x" * SIZE, file="../data_3.pt"), part(3, b"x" * SIZE, file="data_3.pt/../x"),
        frame({"kind": "data"}), frame({"kind": "data", "file": 7}), frame({"kind": "odd", "file": "manifest.jsonl"}),
        frame({}), part(3, b"", file="data_99999999999.pt"), part(3, b""),
    ],
)  # fmt: skip
def test_what_was_not_asked_for_is_passed_over(place: Place, noise: bytes) -> None:
    stream(place, Sender([[noise, *WHOLE]])).go()
    assert standing(place) == GOOD


@pytest.mark.parametrize(
    "broken",
    [
        [part(3, GOOD[3][:100]), LinkLost("cut")],
        [part(3, GOOD[3][:100])],  # ends without an end
        [part(3, GOOD[3][:100]), b"no frame at all, and long enough to be told from one"],
        [part(3, GOOD[3][:100]), part(3, b"x" * 10, offset=150)],  # a gap
        [part(3, GOOD[3][:100]), part(3, b"x" * 10, offset=None)],  # type: ignore[arg-type]
        [part(3, GOOD[3][:100]), part(3, b"x" * 10, offset=True)],
        [PayloadCrashed("killed over there")],
        LinkLost("nobody there"),
    ],
)
def test_what_breaks_off_is_gone_on_with(place: Place, broken: Any) -> None:
    sender = Sender([broken, WHOLE])
    stream(place, sender).go()
    assert standing(place) == GOOD
    assert list(place.samples.glob(".*")) == []
    if isinstance(broken, list) and len(broken[0:1]) and isinstance(broken[0], bytes):
        assert sender.asked[1].offsets == {"3": 100}


def test_overlapping_bytes_are_taken_once(place: Place) -> None:
    sender = Sender([[part(3, GOOD[3][:200]), part(3, GOOD[3][100:], offset=100), part(7, GOOD[7]), END]])
    stream(place, sender).go()
    assert standing(place) == GOOD


@pytest.mark.parametrize(
    ("script", "why"),
    [
        ([part(3, b"x" * SIZE), part(7, GOOD[7]), END], "came twice with another SHA-256"),
        ([part(3, b"x" * (SIZE + 1)), part(7, GOOD[7]), END], "came twice with another SHA-256"),
        ([part(3, b"x" * 5, of=5), part(7, GOOD[7]), END], "is 5 bytes there"),
        ([part(3, b"x" * 5, of=None), part(7, GOOD[7]), END], "is None bytes there"),
        ([part(3, GOOD[3][:50]), part(7, GOOD[7]), END], "was not sent whole"),
        ([part(7, GOOD[7]), END], "was not sent whole"),
        ([frame({"kind": "not", "file": "data_3.pt", "why": "gone \x1b[2J"}), part(7, GOOD[7]), END], "gone"),
        ([frame({"kind": "not", "file": "data_3.pt"}), part(7, GOOD[7]), END], "cannot be sent"),
    ],
)
def test_what_cannot_be_had_is_told_and_the_other_stands(place: Place, script: list[bytes], why: str) -> None:
    made = stream(place, Sender([script]))
    made.go()
    assert list(made.failed) == [3]
    assert why in made.failed[3]
    assert "\x1b" not in made.failed[3]
    assert standing(place) == {7: GOOD[7]}


@pytest.mark.parametrize(
    ("script", "error"),
    [
        ([frame({"kind": "end", "error": "the output folder /out cannot be opened"})], JobFailed),
        (Denied("no key of ours"), Denied),
        ([PayloadCrashed("a fault of ours")], PayloadCrashed),
    ],
)
def test_what_no_other_try_would_mend_ends_it(place: Place, script: Any, error: type[Exception]) -> None:
    sender = Sender([script])
    with pytest.raises(error):
        stream(place, sender).go()
    assert len(sender.asked) == (3 if error is PayloadCrashed else 1)


def test_patience_ends(place: Place) -> None:
    with pytest.raises(GaveUp, match="no link for 0 s") as caught:
        stream(place, Sender([LinkLost("away")]), patience=0.0).go()
    assert "goes on where it stood" in caught.value.remedy


def test_an_end_lands_what_is_whole(place: Place) -> None:
    made = stream(place, Sender([[part(3, GOOD[3]), part(7, GOOD[7][:10]), LinkLost("cut")], WHOLE]))
    made.hearers.on_bytes = lambda count: made.hearers.ending.set() if count == 10 else None
    with pytest.raises(Ended):
        made.go()
    assert standing(place) == {3: GOOD[3]}
    assert place.came(ENTRIES[1]) == 10


def test_nothing_takes_its_place_behind_the_back_of_who_writes_the_manifest(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C while the disk is slow: what is synced only after the manifest was written stays a part."""
    syncing, goes_on = threading.Event(), threading.Event()
    monkeypatch.setattr(crews, "LEAVING", 0.1)
    monkeypatch.setattr(arriving, "_sync", lambda _: (syncing.set(), goes_on.wait(60)))
    sender = Sender([[*WHOLE]])
    crew = crews.Crew(
        {"gpu01": Source(cast("Host", sender), "b", "/out")},
        [plan.Holding("gpu01", {one.index: one for one in ENTRIES})],
        place, 1, 5.0, on_bytes=print, on_sample=print, on_link=print,
    )  # fmt: skip

    def interrupted(_: threading.Thread, timeout: float | None = None) -> None:
        if timeout is None:
            assert syncing.wait(60)
            raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "join", interrupted)
        with pytest.raises(KeyboardInterrupt):
            crew.go(set(GOOD))
    (thread,) = [one for one in threading.enumerate() if one.name == "fetch gpu01"]
    goes_on.set()
    thread.join(60)
    assert not thread.is_alive()
    assert (crew.came, standing(place)) == ({}, {})
    assert [place.came(one) for one in ENTRIES] == [SIZE, SIZE]


def arrived(place: Place, index: int) -> Arriving:
    made = Arriving(place, entry(index, b"data"))
    made.add(0, b"data")
    assert made.whole
    assert made.right()
    return made


def test_many_small_ones_are_synced_together(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[int] = []
    landed: list[int] = []
    monkeypatch.setattr(arriving, "MOST", 3)
    monkeypatch.setattr(arriving, "_sync", lambda _: synced.append(len(landed)))
    landing = Landing(place, lambda one: landed.append(one.index))
    for index in range(7):
        landing.add(arrived(place, index))
        assert len(standing(place)) == len(landed) == (index + 1) // 3 * 3
    landing.land()
    landing.land()
    assert (landed, synced) == (list(range(7)), [0, 3, 6])


@pytest.mark.parametrize("have", ["syncfs", "sync alone"])
def test_a_sync_is_one_whatever_the_system_has(place: Place, monkeypatch: pytest.MonkeyPatch, have: str) -> None:
    if have == "sync alone":
        monkeypatch.setattr(arriving.ctypes, "CDLL", lambda *_, **__: object())
    landing = Landing(place, lambda _: None)
    landing.add(arrived(place, 1))
    landing.land()
    assert standing(place) == {1: b"data"}


def test_a_manifest_without_end_does_not_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("local.fetching.stream.LARGEST_MANIFEST", 1 << 20)
    flood = frame({"kind": "data", "file": "manifest.jsonl", "offset": 0, "of": 1}, b"x" * (1 << 19))
    sender = Sender([[flood] * 9])
    said = read_manifest(Source(cast("Host", sender), "b", "/out"))
    assert said == "it has more than 1 MiB: no dataset has so many samples"


def test_a_manifest_comes_whole_or_says_why_not() -> None:
    def told(*script: Callable[[], bytes] | bytes) -> bytes | str:
        return read_manifest(Source(cast("Host", Sender([cast("Any", script)])), "b", "/out"))

    name = {"kind": "data", "file": "manifest.jsonl", "of": 6}
    assert told(frame({**name, "offset": 0}, b"abc"), frame({**name, "offset": 3}, b"def"), END) == b"abcdef"
    assert told(frame({"kind": "not", "file": "manifest.jsonl", "why": "no \x07such file"}), END) == "no such file"
    assert told(frame({"kind": "end", "error": "no folder"})) == "no folder"
    with pytest.raises(LinkLost, match="before all was sent"):
        told(frame({**name, "offset": 0}, b"abc"))
