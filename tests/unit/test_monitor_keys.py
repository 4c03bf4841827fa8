"""What was typed, as keys."""

from __future__ import annotations

import os
import signal

import pytest

from local.monitor import keys


@pytest.mark.parametrize(
    ("typed", "found"),
    [
        (b"", []),
        (b"q", ["q"]),
        (b"19", ["1", "9"]),
        (b"\r", ["enter"]),
        (b"\n", ["enter"]),
        (b"\x7f", ["escape"]),
        (b"\x1b[A\x1b[B", ["up", "down"]),
        (b"\x1bOA", ["up"]),
        (b"\x1b[5~q", ["page-up", "q"]),
        (b"\x1b[1;5Cq", ["q"]),
        (b"\x1bq", ["escape", "q"]),
        ("é".encode(), []),
        (b"\x00\x01\xff", []),
        (b"\x1b[" + b"9" * 14 + b"q", ["q"]),
    ],
)
def test_keys_by_name(typed: bytes, found: list[str]) -> None:
    assert keys.parse(typed) == (found, b"")


@pytest.mark.parametrize("typed", [b"\x1b", b"\x1b[", b"\x1bO", b"\x1b[1;5", b"1\x1b"])
def test_the_start_of_a_sequence_is_kept(typed: bytes) -> None:
    found, rest = keys.parse(typed)
    assert rest == typed[typed.index(b"\x1b") :]
    assert found == (["1"] if typed.startswith(b"1") else [])


def test_without_a_terminal_there_are_no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", None)
    assert not keys.available()
    with keys.Keyboard() as keyboard:
        assert keyboard.read(0.0) == []


def test_a_signal_ends_the_block_with_its_code_and_handlers_are_put_back() -> None:
    before = [signal.getsignal(number) for number in (*keys.ENDING, signal.SIGTSTP)]
    with pytest.raises(SystemExit) as left, keys.ending_in_order():
        assert signal.getsignal(signal.SIGTSTP) == signal.SIG_IGN
        os.kill(os.getpid(), signal.SIGTERM)
    assert left.value.code == 143
    assert [signal.getsignal(number) for number in (*keys.ENDING, signal.SIGTSTP)] == before


def test_a_signal_that_is_not_to_be_heeded_stays_so() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as nohup does
    try:
        with keys.ending_in_order():
            os.kill(os.getpid(), signal.SIGHUP)
            assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)
