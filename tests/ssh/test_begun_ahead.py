"""What the host has begun while the laptop examined ends when the laptop says no, over a real sshd."""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from local.errors import GateRefused, GaveUp
from local.levels import static
from local.tasks.gate import preflight
from tests.ssh.test_warm_gate import session, site

if TYPE_CHECKING:
    from tests.ssh.servers import Server

__all__ = ["site"]
LONG = 60.0  # seconds for what takes one or two

SLOW = """
import os, pathlib, time
pathlib.Path({pid!r}).write_text(f"{{os.getpid()}}\\n")
time.sleep(600)
def never():
    import pkg.gone
"""


def wait_until(true: Any) -> None:
    until = time.monotonic() + LONG
    while not true():
        assert time.monotonic() < until
        time.sleep(0.02)


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_a_static_finding_ends_the_import_that_the_host_has_begun(
    sshd_server: Server, site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pid = tmp_path / "pid"
    (site / "pkg" / "__init__.py").write_text(SLOW.format(pid=str(pid)))
    honest = static.decide

    def once_it_imports(*arguments: Any, **options: Any) -> static.Decided:
        wait_until(lambda: pid.exists() and pid.read_text().endswith("\n"))
        return honest(*arguments, **options)

    monkeypatch.setattr(static, "decide", once_it_imports)
    said: list[str] = []
    try:
        with session(sshd_server, site, said) as refused:
            with pytest.raises(GateRefused, match="static"):
                preflight(refused)
            assert "levels" in said
            wait_until(lambda: not alive(int(pid.read_text())))
    finally:
        shutil.rmtree(sshd_server.home / "warm work", ignore_errors=True)


RESTLESS = """
import pathlib
beside = pathlib.Path({beside!r})
beside.write_text(f"{{beside.read_text() if beside.exists() else ''}}x = 1\\n")
"""


def test_what_changes_while_the_gate_looks_at_it_passes_nobody(sshd_server: Server, site: Path) -> None:
    """Half of the levels have seen what stood there before: no verdict is kept, and no run may start."""
    beside = site / "pkg" / "late.py"
    (site / "pkg" / "__init__.py").write_text(RESTLESS.format(beside=str(beside)))
    said: list[str] = []
    try:
        with session(sshd_server, site, said) as restless:
            with pytest.raises(GaveUp, match="the sources of pkg \\(edited in place\\) changed") as told:
                preflight(restless)
            assert restless.outcome is None
        assert told.value.exit_code == 75
        (site / "pkg" / "__init__.py").write_text("")
        with session(sshd_server, site, said) as settled:
            outcome = preflight(settled)
        assert (outcome.passed, outcome.cached) == (True, False)
        with session(sshd_server, site, said) as warm:
            assert preflight(warm).cached
    finally:
        shutil.rmtree(sshd_server.home / "warm work", ignore_errors=True)
