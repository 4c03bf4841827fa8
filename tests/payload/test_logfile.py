"""The log of a run, bounded: what goes gives its room back, what stays keeps its offsets, and readers are told."""

from __future__ import annotations

from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

import pytest

from remote import read
from remote.paths import Run, Workdir
from remote.run import attempts, logfile, upkeep
from remote.run.ledger import Ledger
from remote.schema import ReadRequest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.running import Lab

KEEP = 1 << 20
LINE = b"%015d\n"


@pytest.fixture
def run(tmp_path: Path) -> Run:
    made = Workdir(PurePosixPath(tmp_path)).run("20260101-000000-abcd")
    Path(made.root).mkdir(parents=True)
    return made


def write(run: Run, size: int) -> None:
    """Append lines that say where they stand."""
    with Path(run.log).open("ab") as log:
        start = log.tell()
        log.write(b"".join(LINE % at for at in range(start, start + size, 16)))


def blocks(run: Run) -> int:
    return Path(run.log).stat().st_blocks * 512


def test_a_log_that_is_not_too_long_is_left_alone(run: Run) -> None:
    assert logfile.trim(run, KEEP) is None  # there is none yet
    write(run, KEEP + KEEP // 16)
    assert logfile.trim(run, KEEP) is None
    assert logfile.start(run) == 0
    assert not Path(run.log_start).exists()


def test_what_goes_gives_its_room_back_and_offsets_stay_true(run: Run) -> None:
    write(run, 4 * KEEP)
    assert logfile.trim(run, KEEP) == (0, 3 * KEEP)
    assert logfile.start(run) == 3 * KEEP
    assert Path(run.log).stat().st_size == 4 * KEEP
    assert blocks(run) <= KEEP + 4096
    write(run, 2 * KEEP)  # who holds the file open goes on at its end
    with Path(run.log).open("rb") as log:
        for at in range(3 * KEEP, 6 * KEEP, 4096):
            log.seek(at)
            assert log.read(16) == LINE % at
    assert logfile.trim(run, KEEP) == (3 * KEEP, 5 * KEEP)
    assert blocks(run) <= KEEP + 4096


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b'{"start": "x"}', b'{"start": -5}', b"\xff"])
def test_a_garbled_start_is_none(run: Run, data: bytes) -> None:
    Path(run.log_start).write_bytes(data)
    assert logfile.start(run) == 0


def test_an_attempts_words_are_what_is_kept_of_them(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    write(run, 4 * KEEP)
    logfile.trim(run, KEEP)
    attempt = attempts.Attempt.__new__(attempts.Attempt)
    monkeypatch.setattr(attempt, "_run", run, raising=False)
    monkeypatch.setattr(attempt, "_safe", 5, raising=False)
    text = attempt.log_text()
    assert text.startswith((LINE % (3 * KEEP)).decode())
    assert "\0" not in text


@pytest.mark.parametrize(
    ("written", "safe", "shown"),
    [
        (b"ValueError: x\n", 0, "ValueError: x\n"),  # a log from its beginning begins with no rest of a secret
        (b"before\nValueError: x\n", 7, "ValueError: x\n"),
        (b"token hf_secretValue\nError: x\n", 15, "***\nError: x\n"),
        (b"token hf_secretValue\nError: x hf_sec", 0, "token ***\nError: x ***"),
        (b"Error: x hf_sec\n", 0, "Error: x hf_sec\n"),
    ],
)
def test_only_a_cut_leaves_a_part_of_a_secret(
    run: Run, monkeypatch: pytest.MonkeyPatch, written: bytes, safe: int, shown: str
) -> None:
    Path(run.log).write_bytes(written)
    attempt = attempts.Attempt.__new__(attempts.Attempt)
    monkeypatch.setattr(attempt, "_run", run, raising=False)
    monkeypatch.setattr(attempt, "_safe", safe, raising=False)
    assert attempt.log_text(["hf_secretValue"]) == shown


class Frames:
    """Stands for the channel: keeps what is sent."""

    def __init__(self) -> None:
        self.sent: list[tuple[dict[str, Any], bytes]] = []

    def frame(self, header: dict[str, Any], body: bytes = b"") -> None:
        self.sent.append((header, body))

    def of(self, kind: str) -> Iterator[tuple[dict[str, Any], bytes]]:
        return ((header, body) for header, body in self.sent if header["kind"] == kind)


def read_from(run: Run, offset: int) -> Frames:
    frames = Frames()
    request = ReadRequest(workdir=str(run.root.parent.parent), run=run.id, offsets={"log": offset}, follow=False)
    read.stream(request, frames)  # type: ignore[arg-type]
    return frames


@pytest.mark.parametrize("offset", [0, 17, 3 * KEEP - 1])
def test_a_reader_is_told_of_what_is_gone_and_reads_on_behind_it(run: Run, offset: int) -> None:
    write(run, 4 * KEEP)
    logfile.trim(run, KEEP)
    frames = read_from(run, offset)
    (gap,) = frames.of("gap")
    assert gap[0] == {"kind": "gap", "file": "log", "offset": offset, "to": 3 * KEEP}
    data = list(frames.of("data"))
    assert data[0][0]["offset"] == 3 * KEEP
    assert b"".join(body for _, body in data) == b"".join(LINE % at for at in range(3 * KEEP, 4 * KEEP, 16))


def test_bytes_that_become_a_hole_while_they_are_read_are_never_sent(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    write(run, 4 * KEEP)
    starts = iter([0, 3 * KEEP])  # asked before the bytes are read, and after
    monkeypatch.setattr(logfile, "start", lambda _: next(starts, 3 * KEEP))
    frames = read_from(run, 0)
    assert [header["to"] for header, _ in frames.of("gap")] == [3 * KEEP]
    assert next(frames.of("data"))[0]["offset"] == 3 * KEEP


def test_a_reader_behind_the_start_is_told_of_nothing(run: Run) -> None:
    write(run, 4 * KEEP)
    logfile.trim(run, KEEP)
    assert list(read_from(run, 3 * KEEP).of("gap")) == []


def events(ledger: Ledger) -> str:
    return Path(ledger.run.events).read_text()


def test_upkeep_trims_now_and_then_and_tells_it(lab: Lab, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = Ledger(run, "/out")
    keeping = upkeep.Upkeep(run, lab.job(keep_log_mb=1), ledger)
    write(run, 4 * KEEP)
    keeping.trim()
    assert f'"event":"log-trimmed","from":0,"to":{3 * KEEP}' in events(ledger)
    write(run, 4 * KEEP)
    keeping.trim()  # too soon
    assert logfile.start(run) == 3 * KEEP
    monkeypatch.setattr(upkeep, "TRIM_EVERY", 0.0)
    keeping.trim()
    assert logfile.start(run) == 7 * KEEP


def test_a_file_system_without_holes_keeps_the_log_whole_and_says_so_once(
    lab: Lab, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logfile, "PUNCH_HOLE", 0x40)  # no file system here can do what this asks for
    monkeypatch.setattr(upkeep, "TRIM_EVERY", 0.0)
    ledger = Ledger(run, "/out")
    keeping = upkeep.Upkeep(run, lab.job(keep_log_mb=1), ledger)
    write(run, 4 * KEEP)
    keeping.trim()
    keeping.trim()
    assert events(ledger).count("log-kept-whole") == 1
    assert logfile.start(run) == 0
