"""A link that breaks under a gate: no half verdict, nothing that goes on over there, and the next gate is right."""

from __future__ import annotations

import dataclasses
import shutil
import threading
from typing import TYPE_CHECKING, Any

import pytest

from local.errors import LinkLost
from local.levels import static
from local.links import connection
from local.tasks.gate import preflight
from tests.ssh.test_begun_ahead import alive, wait_until
from tests.ssh.test_warm_gate import session, site

if TYPE_CHECKING:
    from pathlib import Path

    from tests.ssh.proxy import Proxy
    from tests.ssh.servers import Server

__all__ = ["site"]


ENDLESS = """
import os, pathlib, time
pathlib.Path({pid!r}).write_text(f"{{os.getpid()}}\\n")
time.sleep(600)
"""


@pytest.fixture
def behind(sshd_server: Server, proxy: Proxy) -> Server:
    """Give the server as it is reached through the proxy."""
    return dataclasses.replace(sshd_server, port=proxy.port)


@pytest.mark.parametrize(("during", "how"), [("static", "cut"), ("import", "cut"), ("import", "stall")])
def test_a_link_that_breaks_under_the_gate_leaves_no_verdict_and_no_process(
    behind: Server, proxy: Proxy, site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, how: str, during: str
) -> None:  # fmt: skip
    pid, work = tmp_path / "pid", behind.home / "warm work"
    (site / "pkg" / "__init__.py").write_text(ENDLESS.format(pid=str(pid)))
    honest, examined, said = static.decide, threading.Event(), list[str]()

    def noted(*arguments: Any, **options: Any) -> static.Decided:
        if during == "static":
            wait_until(pid_is_written)
            getattr(proxy, how)()
        examined.set()
        return honest(*arguments, **options)

    def pid_is_written() -> bool:
        return pid.exists() and pid.read_text().endswith("\n")

    def breaks() -> None:
        wait_until(lambda: examined.is_set() and pid_is_written())
        getattr(proxy, how)()

    breaker = threading.Thread(target=breaks)
    try:
        breaker.start()
        with monkeypatch.context() as impatient, session(behind, site, said) as broken:
            impatient.setattr(static, "decide", noted)
            impatient.setattr(connection, "BEAT", 0.5)
            impatient.setattr(connection, "SILENCE", 5.0)
            with pytest.raises(LinkLost) as told:
                preflight(broken)
            assert broken.outcome is None
        breaker.join()
        proxy.resume()
        proxy.cut()  # what a firewall that forgot the connection does in the end
        assert told.value.exit_code == 75
        assert "gpu01" in str(told.value)
        wait_until(lambda: not alive(int(pid.read_text())))
        assert list(work.glob("verdicts/*.json")) == []
        (site / "pkg" / "__init__.py").write_text("")
        with session(behind, site, said) as again:
            outcome = preflight(again)
        assert (outcome.passed, outcome.cached) == (True, False)
    finally:
        shutil.rmtree(work, ignore_errors=True)
