from __future__ import annotations

import pytest

from local.logtext import LONGEST, LogText


def read(data: bytes, step: int) -> list[str]:
    text = LogText()
    lines = [line for at in range(0, len(data), step) for line in text.feed(data[at : at + step])]
    return lines + text.finish()


@pytest.mark.parametrize("step", [1, 2, 3, 7, 1000])
def test_lines_are_the_same_however_the_bytes_are_cut(step: int) -> None:
    data = "grüße 🚀\r\n 10%|█  |\r 50%|██ |\r100%|███|\nend\r\nrest".encode()
    assert read(data, step) == ["grüße 🚀", "100%|███|", "end", "rest"]


def test_a_bar_that_is_being_drawn_is_pending() -> None:
    text = LogText()
    assert text.feed(b"\r 10%\r 20%") == []
    assert text.pending == " 20%"
    assert text.feed(b"\r 30%\r") == []
    assert text.pending == " 30%"


def test_a_bar_without_end_costs_no_memory() -> None:
    text = LogText()
    for number in range(2000):
        text.feed(b"\r%d%% of a bar that goes on for hours" % number)
    assert len(text._held) < 200


def test_a_line_without_end_is_shown_in_parts() -> None:
    text = LogText()
    lines = text.feed(b"x" * (LONGEST * 2 + 5))
    assert [len(line) for line in lines] == [LONGEST, LONGEST]
    assert text.finish() == ["xxxxx"]


@pytest.mark.parametrize("data", [b"\xff\xfe\n", b"a\x00b\x1b]0;title\x07\x1b[2Jc\n", b"\xf0\x9f\n"])
def test_controls_and_broken_characters_do_not_reach_the_terminal(data: bytes) -> None:
    (line,) = LogText().feed(data)
    assert line.isprintable()
