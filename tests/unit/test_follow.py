from __future__ import annotations

import json
import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

import pytest

from local.errors import Denied, GaveUp, LinkLost, PayloadCrashed, Unreachable, UsageError
from local.follow import Follower, follow
from local.links.fake import FakeStream
from remote.channel import FRAME, MARK

if TYPE_CHECKING:
    from collections.abc import Callable

    from local.host import Host
    from remote.schema import Exit, ReadRequest

EXIT = {"phase": "done", "code": 0, "ended": 1.0, "attempts": 1}


def frame(header: dict[str, Any], body: bytes = b"") -> bytes:
    return MARK + FRAME + b" " + json.dumps({**header, "size": len(body)}).encode() + b"\n" + body


def data(offset: int, body: bytes, file: str = "log") -> bytes:
    return frame({"kind": "data", "file": file, "offset": offset}, body)


END = frame({"kind": "end", "exit": EXIT})


@dataclass
class Place:
    """A host whose every connection is told by a function of the request."""

    tell: Callable[[ReadRequest], list[bytes | Exception] | Exception]
    asked: list[dict[str, int]] = field(default_factory=list)
    streams: list[FakeStream] = field(default_factory=list)
    name: str = "gpu01"

    def stream(self, verb: str, request: ReadRequest, *, bundle: str) -> FakeStream:
        assert (verb, bundle) == ("read", "b")
        self.asked.append(dict(request.offsets))
        told = self.tell(request)
        if isinstance(told, Exception):
            raise told
        self.streams.append(FakeStream(told))
        return self.streams[-1]


@dataclass
class Seen:
    log: bytes = b""
    events: list[dict[str, Any]] = field(default_factory=list)
    link: list[str] = field(default_factory=list)

    def on_log(self, more: bytes) -> None:
        self.log += more


def watch(place: Place, seen: Seen, **more: Any) -> Exit | None:
    return follow(
        cast("Host", place), bundle="b", workdir="/w", run="r",
        on_log=seen.on_log, on_event=seen.events.append, on_link=seen.link.append, **more,
    )  # fmt: skip


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Follower, "_sleep", lambda *_: None)


def script(*connections: list[bytes | Exception] | Exception) -> Place:
    left = list(connections)
    return Place(lambda _: left.pop(0))


@pytest.mark.parametrize("seed", range(40))
def test_each_byte_and_event_comes_once_and_in_order_whatever_the_cuts(seed: int) -> None:
    dice = random.Random(seed)  # noqa: S311 - a replayable choice, no secret
    log = dice.randbytes(300) + "ü🚀\n".encode() * 10
    events = [{"n": number, "event": "progress", "text": "é\x1e"} for number in range(20)]
    lines = b"".join(json.dumps(event, ensure_ascii=False).encode() + b"\n" for event in events)

    def tell(request: ReadRequest) -> list[bytes | Exception]:
        """Send what is missing in pieces, and lose the link at any byte."""
        at = dict(request.offsets)
        stream = b"banner\n"
        for name, whole in (("log", log), ("events", lines)):
            while at[name] < len(whole):
                size = dice.randint(1, 60)
                stream += data(at[name], whole[at[name] : at[name] + size], name)
                at[name] += size
        stream += END
        stream = stream if dice.random() < 0.2 else stream[: dice.randrange(len(stream))]
        parts: list[bytes | Exception] = [stream[start : start + 37] for start in range(0, len(stream), 37)]
        return [*parts, LinkLost("cut")] if dice.random() < 0.5 else parts

    seen = Seen()
    ended = watch(Place(tell), seen)
    assert ended is not None
    assert ended.phase == "done"
    assert seen.log == log
    assert seen.events == events


def test_bytes_that_come_twice_are_passed_on_once() -> None:
    seen = Seen()
    place = script([data(0, b"abc"), data(1, b"bcde"), data(0, b"abc"), data(5, b"f"), END])
    assert watch(place, seen) is not None
    assert seen.log == b"abcdef"


def test_a_gap_is_asked_for_again() -> None:
    place, seen = script([data(0, b"ab"), data(4, b"ef")], [data(2, b"cdef"), END]), Seen()
    watch(place, seen)
    assert seen.log == b"abcdef"
    assert place.asked == [{"log": 0, "events": 0}, {"log": 2, "events": 0}]
    assert all(stream.closed for stream in place.streams)


def test_a_damaged_stream_is_a_lost_link() -> None:
    place, seen = script([data(0, b"ab"), b"Killed\n"], [data(2, b"c"), END]), Seen()
    watch(place, seen)
    assert seen.log == b"abc"
    assert "damaged" in seen.link[0]
    assert "the link is back" in seen.link[1]


def test_following_starts_where_it_is_told_to() -> None:
    place, seen = script([data(7, b"x"), END]), Seen()
    watch(place, seen, offsets={"log": 7})
    assert place.asked == [{"log": 7, "events": 0}]
    assert seen.log == b"x"


def test_an_unreachable_host_is_waited_for() -> None:
    place, seen = script(Unreachable("refused"), LinkLost("cut"), [END]), Seen()
    assert watch(place, seen) is not None
    assert len(seen.link) == 2


def test_a_host_that_lets_no_key_in_is_not_asked_for_ever() -> None:
    place = script(LinkLost("cut"), Denied("lets none of our keys in"))
    with pytest.raises(Denied):
        watch(place, Seen())
    assert len(place.asked) == 2


def test_patience_ends_with_a_way_to_come_back() -> None:
    place = Place(lambda _: LinkLost("no route"))
    with pytest.raises(GaveUp, match="no route") as caught:
        watch(place, Seen(), patience=0.0)
    assert caught.value.exit_code == 75
    assert "the run goes on" in caught.value.remedy
    assert "--run r" in caught.value.remedy


def test_our_own_fault_is_soon_given_up() -> None:
    place = script(*[PayloadCrashed("bug")] * 3)
    with pytest.raises(PayloadCrashed):
        watch(place, Seen())
    assert len(place.asked) == 3


def test_a_reading_that_was_killed_is_begun_again_as_long_as_it_comes_further() -> None:
    crash = PayloadCrashed("`read` ended with exit code 137")
    place, seen = script(*[[data(at, b"x"), crash] for at in range(9)], [END]), Seen()
    assert watch(place, seen) is not None
    assert seen.log == b"x" * 9


def test_a_run_that_is_not_there_is_an_error_of_the_user() -> None:
    with pytest.raises(UsageError, match="no run r"):
        watch(script([frame({"kind": "end", "exit": None, "error": "no run r in /w"})]), Seen())


def test_a_lost_run_has_no_exit() -> None:
    seen = Seen()
    assert watch(script([frame({"kind": "end", "exit": None, "lost": "rebooted"})]), seen) is None
    assert seen.link == ["the run is lost: rebooted"]


def test_an_end_that_cannot_be_understood_is_asked_for_again() -> None:
    place = script([frame({"kind": "end", "exit": {"phase": 1}})], [END])
    ended = watch(place, Seen())
    assert ended is not None
    assert len(place.asked) == 2


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
def test_what_the_watcher_raises_passes_through(error: type[BaseException]) -> None:
    def raise_it(_: bytes) -> None:
        raise error

    place = script([data(0, b"x"), END])
    with pytest.raises(error):
        follow(cast("Host", place), bundle="b", workdir="/w", run="r", on_log=raise_it, on_event=lambda _: None)
    assert place.streams[0].closed


def test_torn_event_lines_are_passed_over() -> None:
    lines = b'{"n":1,"event":"a"}\n{"n":2,"ev\n\xff\n[]\n{"n":3,"event":"c"}\n'
    seen = Seen()
    watch(script([data(0, lines, "events"), END]), seen)
    assert [event["n"] for event in seen.events] == [1, 3]


def test_bytes_that_the_host_has_not_kept_are_told_and_passed_over() -> None:
    gap = frame({"kind": "gap", "file": "log", "offset": 3, "to": 9_000})
    place = Place(lambda request: [data(0, b"abc"), gap, LinkLost("cut")] if not request.offsets["log"] else
                  [data(9_000, b"xyz"), END])  # fmt: skip
    seen = Seen()
    ended = watch(place, seen)
    assert ended is not None
    assert seen.log == b"abcxyz"
    assert place.asked[1]["log"] == 9_000
    assert seen.link[0] == "bytes 3 to 9,000 of the log are not kept on the host"


@pytest.mark.parametrize("to", [0, 2, "x", None])
def test_a_gap_that_makes_no_sense_moves_nothing(to: Any) -> None:
    place = Place(lambda _: [data(0, b"abc"), frame({"kind": "gap", "file": "log", "to": to}), data(3, b"d"), END])
    seen = Seen()
    assert watch(place, seen) is not None
    assert (seen.log, seen.link) == (b"abcd", [])
