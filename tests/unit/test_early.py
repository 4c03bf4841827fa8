"""Ctrl-C while `fab` is starting: code 130, and not a word; for nobody but `fab` itself."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from local import early

ROOT = Path(__file__).parents[2]
# Runs `fab` as its script does; a room that is read on the way sends the signal, wherever the machine's speed has it.
STRIKE = """
import os, signal, sys
sys.argv = [{name!r}, "check", "--inventory", "/nowhere/hosts.toml"]
class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == {room!r}:
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Finder())
from fabric.main import program
program.run()
print("it went on")
"""


def struck(room: str, name: str = "/somewhere/bin/fab", **options: bool) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", STRIKE.format(room=room, name=name)],
        cwd=ROOT, capture_output=True, text=True, check=False, timeout=120, env={**os.environ, "NO_COLOR": "1"},
        preexec_fn=ignoring if options.get("ignored") else None,
    )  # fmt: skip


def run(*words: str, stdout: int = subprocess.PIPE, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run `fab` itself."""
    return subprocess.run(
        [Path(sys.executable).parent / "fab", *words],
        cwd=ROOT, stdout=stdout, stderr=subprocess.PIPE, text=True, check=False, timeout=120,
        env={**os.environ, "NO_COLOR": "1", "FABRIC_INVENTORY": "/nowhere/hosts.toml", **variables},
    )  # fmt: skip


def test_what_fabric_cannot_start_with_is_told_in_a_line(tmp_path: Path) -> None:
    done = run("-S", "/nowhere/config", "status")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error  fab cannot start: '/nowhere/config': No such file or directory\n")
    strange = tmp_path / "config"
    strange.write_bytes(b"Host \xff\n\x00")
    done = run("-S", str(strange), "status")
    assert done.returncode == 2
    assert done.stderr.startswith("error  fab cannot start: UnicodeDecodeError: ")
    assert "Traceback" not in done.stderr
    assert "Traceback" in run("-S", "/nowhere/config", "status", PRUDENT_GATE_DEBUG="1").stderr


def test_a_list_that_nobody_reads_ends_without_a_word() -> None:
    """`fab --list | head`."""
    reading, writing = os.pipe()
    os.close(reading)
    try:
        done = run("--list", stdout=writing)
    finally:
        os.close(writing)
    assert (done.returncode, done.stderr) == (141, "")


def test_a_list_that_cannot_be_written_is_told_as_that() -> None:
    with Path("/dev/full").open("w") as full:
        done = run("--list", stdout=full.fileno())
    assert done.returncode == 1
    assert done.stderr == "error  standard output cannot be written: No space left on device\n"


def test_a_user_s_ssh_config_that_fabric_cannot_read_does_not_end_fab(tmp_path: Path) -> None:
    (tmp_path / ".ssh").mkdir()
    (tmp_path / ".ssh" / "config").write_bytes("# Zürich\nHost gpu\n  Port 22\n".encode("latin-1"))
    done = run("status", HOME=str(tmp_path))
    assert done.returncode == 2
    assert "/nowhere/hosts.toml does not exist" in done.stderr


def ignoring() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)


@pytest.mark.parametrize("room", ["local.executor", "local.screen", "local.guard", "local.rendezvous"])
def test_ctrl_c_on_the_way_is_quiet(room: str) -> None:
    done = struck(room)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


def test_who_has_it_ignored_goes_on() -> None:
    """A shell's background job, and whatever else was started so."""
    done = struck("local.executor", ignored=True)
    assert done.returncode == 2
    assert "/nowhere/hosts.toml" in done.stderr


def test_whoever_else_reads_the_fabfile_keeps_python_s_own_way() -> None:
    done = struck("local.executor", name="/somewhere/bin/pytest")
    assert done.returncode not in {0, 2, 130}


def test_the_executor_takes_over(monkeypatch: pytest.MonkeyPatch) -> None:
    before = signal.getsignal(signal.SIGINT)
    monkeypatch.setattr(sys, "argv", ["fab"])
    try:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        early.leave_quietly()
        assert signal.getsignal(signal.SIGINT) is early._leave
        early.take_over()
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        early.leave_quietly()
        early.take_over()
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize(("name", "seldom"), [("/somewhere/bin/fab", True), ("/somewhere/bin/pytest", False)])
def test_only_fab_itself_looks_seldom_for_garbage(name: str, *, seldom: bool) -> None:
    script = "import gc, json, sys\nsys.argv[0] = sys.argv[1]\nfrom local import early\nbefore = gc.get_threshold()\n"
    script += "early.collect_seldom()\nprint(json.dumps([before, gc.get_threshold(), gc.isenabled()]))"
    done = subprocess.run(
        [sys.executable, "-c", script, name], cwd=ROOT, capture_output=True, text=True, check=True, timeout=120
    )
    before, after, enabled = json.loads(done.stdout)
    assert after == (list(early.SELDOM) if seldom else before)
    assert enabled
