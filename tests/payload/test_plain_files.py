"""Pipes, devices, sockets, folders and endless files where ours should be: whoever reads is never made to wait."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

import pytest

from remote import files, locks, verdict, wire
from remote.gate import rates
from remote.paths import Output, Workdir
from remote.prompts import census_child
from remote.results import manifest, outputs
from remote.run import excerpts, hand, runs, suspects

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).resolve().parents[2]
RUN = "20260101-000000-abcd"
VERBS = {
    "status": {"workdir": "{work}"},
    "story": {"workdir": "{work}", "run": RUN},
    "pulse": {"workdir": "{work}", "run": RUN, "output": "{work}/out"},
    "clean": {"workdir": "{work}"},
    "send": {"output": "{work}/out", "manifest": True, "indices": [0]},
}


def pipe(path: Path) -> None:
    os.mkfifo(path)


def folder(path: Path) -> None:
    path.mkdir()


def link_to_zeros(path: Path) -> None:
    path.symlink_to("/dev/zero")


def unix_socket(path: Path) -> None:
    here = Path.cwd()
    os.chdir(path.parent)  # its whole path may be longer than a socket's name may be
    try:
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(path.name)
    finally:
        os.chdir(here)


KINDS = (pipe, folder, link_to_zeros, unix_socket)


def stuffed(work: Path, make: Callable[[Path], None]) -> None:
    """Make a workdir in which everything that is read is of a strange kind."""
    run = Workdir(PurePosixPath(work)).run(RUN)
    output = Output(PurePosixPath(work / "out"))
    Path(run.root).mkdir(parents=True)
    Path(output.root).mkdir()
    (work / "verdicts").mkdir()
    every = [
        run.job, run.state, run.exit, run.events, run.vitals, run.log, run.log_start, run.batch, run.hand,
        run.suspects, run.shared, run.stop, run.verified, run.hooks_log, run.hooks_events,
        output.manifest, output.lock, output.identity, output.sample(0), work / "verdicts" / f"{'0' * 64}.json",
    ]  # fmt: skip
    for path in every:
        make(Path(path))


@pytest.mark.parametrize("make", KINDS)
@pytest.mark.parametrize("verb", VERBS)
def test_a_verb_answers_in_a_workdir_of_strange_files(tmp_path: Path, make: Any, verb: str) -> None:
    work = tmp_path / "w"
    stuffed(work, make)
    asked = {"schema": 1, **{k: v.format(work=work) if isinstance(v, str) else v for k, v in VERBS[verb].items()}}
    words, stdin = [sys.executable, "-B", "-m", "remote", verb], wire.json.dumps(asked).encode()
    done = subprocess.run(words, input=stdin, capture_output=True, cwd=ROOT, timeout=60, check=False)
    assert done.returncode == 0, done.stderr.decode()[-2000:]
    assert b"Traceback" not in done.stderr, done.stderr.decode()[-2000:]
    assert b"\x1e" in done.stdout, "it has answered"


@pytest.mark.parametrize("make", KINDS)
def test_a_reader_of_strange_files_goes_on(tmp_path: Path, make: Any) -> None:
    work = tmp_path / "w"
    stuffed(work, make)
    run, output = Workdir(PurePosixPath(work)).run(RUN), Output(PurePosixPath(work / "out"))
    seen = runs.look(run)
    assert (seen.state, seen.request, len(seen.faults)) == (None, None, 3)
    assert (hand.held(run), suspects.read(run).samples, locks.holder(output)) == ((), frozenset(), None)
    assert excerpts.of_run(run, [], tail=True) == ()
    assert verdict.read(work / "verdicts", "0" * 64) is None
    assert list(rates._events(Path(run.events))) == []
    assert outputs.sample_sizes(output).keys() <= {0}
    with pytest.raises(OSError, match="is no plain file"):
        manifest.read(output)
    with pytest.raises(OSError, match="is no plain file"):
        census_child._settled(Path(output.identity))
    with pytest.raises(OSError, match="is no plain file"):
        outputs.sha256_of(output.sample(0))


def test_a_document_without_end_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    with path.open("wb") as file:
        file.truncate(files.LARGEST + 1)
    with pytest.raises(OSError, match="too large"):
        files.read(path)
