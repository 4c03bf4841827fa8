from __future__ import annotations

import pytest

from local.streaming import BadStream, Frame, Frames
from remote.channel import MARK

BODY = b"a\x1eFRAME {\nb"
STREAM = (
    MARK + b'FRAME {"kind":"beat","size":0}\n'
    + MARK + b'FRAME {"kind":"data","file":"log","offset":0,"size":%d}\n' % len(BODY) + BODY
    + MARK + b'FRAME {"kind":"end","exit":null,"size":0}\n'
)  # fmt: skip
EXPECTED = [
    Frame({"kind": "beat", "size": 0}, b""),
    Frame({"kind": "data", "file": "log", "offset": 0, "size": len(BODY)}, BODY),
    Frame({"kind": "end", "exit": None, "size": 0}, b""),
]


@pytest.mark.parametrize("noise", [b"", b"Welcome\n", b"\x1e\x1eFRAME", b"x" * 100_000])
def test_frames_are_found_however_the_bytes_are_cut(noise: bytes) -> None:
    data = noise + STREAM
    for cut in range(max(0, len(noise) - 12), len(data) + 1):
        frames = Frames()
        assert frames.feed(data[:cut]) + frames.feed(data[cut:]) == EXPECTED


def test_one_byte_at_a_time() -> None:
    frames = Frames()
    assert [frame for byte in STREAM for frame in frames.feed(bytes([byte]))] == EXPECTED


@pytest.mark.parametrize(
    "data",
    [
        MARK + b"FRAME not json\n",
        MARK + b"FRAME []\n",
        MARK + b'FRAME {"kind":"beat"}\n',
        MARK + b'FRAME {"size":-1}\n',
        MARK + b'FRAME {"size":true}\n',
        MARK + b'FRAME {"size":99999999999}\n',
        MARK + b"FRAME " + b"x" * (1 << 21),
        MARK + b'FRAME {"size":0}\nBroken pipe\n',
        MARK + b"FRAME " + b"[" * 100_000 + b"\n",
    ],
)
def test_damaged_streams_are_refused(data: bytes) -> None:
    frames = Frames()
    with pytest.raises(BadStream):
        for part in (data, b""):  # whole frames before the damage are given first
            frames.feed(part)
