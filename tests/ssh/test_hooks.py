"""Hooks of whole `fab extract`s over a real sshd: told at the end, once, with secrets masked; refused before."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.running import until
from tests.ssh.test_fab import Laptop

if TYPE_CHECKING:
    from pathlib import Path

    from tests.ssh.servers import Server

NOTE = "echo $PRUDENT_GATE_OCCASION $PRUDENT_GATE_PHASE $PRUDENT_GATE_CAUSE >> {}"


@pytest.fixture
def laptop(tmp_path: Path, sshd_server: Server) -> Laptop:
    return Laptop(tmp_path, sshd_server)


def job(laptop: Laptop, script: str, **hooks: Any) -> None:
    laptop.write(script)
    lines = [f"{name} = {{ {kind} = {json.dumps(text)} }}" for name, (kind, text) in hooks.items()]
    with laptop.inventory.open("a") as file:
        file.write("[jobs.script.hooks]\n" + "\n".join(lines) + "\n")


def test_both_sides_tell_the_end_and_mask_secrets(laptop: Laptop) -> None:
    here = laptop.folder / "here"
    job(laptop, "echo done", on_done=("laptop", f"{NOTE.format(here)}; echo got $TEST_TOKEN"))
    text = laptop.inventory.read_text()
    there = json.dumps(NOTE.format(laptop.folder / "there") + "; echo $TEST_TOKEN")
    laptop.inventory.write_text(text.replace("on_done = {", f"on_done = [{{ host = {there} }}, {{").rstrip() + "]\n")
    done = laptop.fab("-H", "gpu", "extract")
    assert done.returncode == 0, done.stderr
    assert here.read_text() == "on_done done\n"
    assert "hook on_done 1 (laptop): done" in done.stderr
    assert "got ***" in done.stderr
    (log,) = until(lambda: list((laptop.folder / "workdir" / "runs").glob("*/hooks.log")), "the host's hook")
    assert (laptop.folder / "there").read_text() == "on_done done\n"
    assert "***" in log.read_text()


def test_a_failure_is_told_and_a_hook_that_fails_changes_no_exit_code(laptop: Laptop) -> None:
    here = laptop.folder / "here"
    script = "echo 'RuntimeError: Error 802: system not yet initialized'; exit 1"
    job(laptop, script, on_failed=("laptop", f"{NOTE.format(here)}; exit 9"), on_done=("laptop", "touch /never"))
    done = laptop.fab("-H", "gpu", "extract")
    assert done.returncode == 5
    assert here.read_text() == "on_failed failed fabric-manager\n"
    assert "hook on_failed 1 (laptop): exit code 9" in done.stderr


def test_what_could_not_be_told_is_refused_before_anything_starts(laptop: Laptop) -> None:
    job(laptop, "touch started", on_failed=("notify", "NO_SUCH_CHAT"))
    done = laptop.fab("-H", "gpu", "extract")
    assert done.returncode == 2
    assert "$NO_SUCH_CHAT is not set" in done.stderr
    assert "jobs.script.hooks.on_failed" in done.stderr
    assert not (laptop.folder / "workdir" / "runs").exists()
