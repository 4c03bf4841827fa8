"""What a login shell's start-up file and a job's environment can spoil, told by the gate of a real SSH server."""

from __future__ import annotations

import json
import os
import pwd
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests import hostpython, laptop
from tests.ssh import sshd

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.ssh.servers import Server

FAB = str(Path(sys.executable).parent / "fab")
ROOT = Path(__file__).parents[2]
SHELL = pwd.getpwuid(os.geteuid()).pw_shell
pytestmark = pytest.mark.skipif(
    sshd.program() is None or not SHELL.endswith("/bash"), reason="needs a real sshd, and bash as the login shell"
)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with sshd.running(tmp_path_factory.mktemp("odd")) as running:
        yield running


def gate(
    server: Server,
    folder: Path,
    *words: str,
    rc: str = "",
    env: dict[str, str] | None = None,
    engine: str = "command",
    python: str = "",
) -> tuple[int, dict[str, Any]]:
    """Take a job through the gate; gives the exit code, and the host's part of the report."""
    (server.home / ".bashrc").write_text(f"{rc}\n")
    told = json.dumps({"PYTHONPATH": str(folder / "site"), **(env or {})}).replace('": "', '" = "')
    wanted = {"command": 'command = ["true"]', "speculators": 'model = "/none"\ndataset = "/none"\nlayers = [1]'}[
        engine
    ]
    (folder / "inventory.toml").write_text(f"""
[hosts.gpu01]
address = "127.0.0.1"
port = {server.port}
user = "{server.user}"
identity_file = "{server.identity}"
python = "{python or hostpython.python()}"
workdir = "{folder}/workdir"
[jobs.j]
engine = "{engine}"
{wanted}
output = "{folder}/out"
device = "cpu"
env = {told}
gate = {{ modules = ["pkg"] }}
""")
    words = ("preflight", "--no-patches", "--report", "-", *words)
    done = subprocess.run(
        [FAB, *words],
        cwd=ROOT,
        env=laptop.environment(folder),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.stdout, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)["hosts"]["gpu01"]
    return done.returncode, found


def findings(report: dict[str, Any]) -> dict[str, Any]:
    return {found["rule"]: found for check in report["checks"] for found in check["findings"]}


def test_what_would_end_a_job_after_its_load_is_told_at_the_level_host(server: Server, tmp_path: Path) -> None:
    rc = "ulimit -n 64; ulimit -v 4000000; export HOME=/proc TMPDIR=/proc"
    env = {"VLLM_LOOPBACK_IP": "198.51.100.7", "GLOO_SOCKET_IFNAME": "absent9"}
    code, report = gate(server, tmp_path, "--until", "host", rc=rc, env=env, engine="speculators")
    found = findings(report)
    assert code == 3
    for rule, severity, words in (
        ("limit-files", "error", "64 files (`ulimit -n`)"),
        ("limit-memory", "warning", "3.8 GiB of memory (`ulimit -v`)"),
        ("temporary-not-writable", "warning", "in /proc (it takes none)"),
        ("home-not-writable", "warning", "the home (/proc) takes no files"),
        ("address-unreachable", "error", "VLLM_LOOPBACK_IP is 198.51.100.7"),
        ("interface-missing", "error", "there is no interface 'absent9'"),
    ):
        assert found[rule]["severity"] == severity
        assert words in found[rule]["message"]


@pytest.mark.parametrize("rc", ["unset HOME TMPDIR", "export HOME=/; ulimit -n 4096; umask 077"])
def test_a_session_that_is_only_unusual_is_let_through(server: Server, tmp_path: Path, rc: str) -> None:
    (tmp_path / "site" / "pkg").mkdir(parents=True)
    (tmp_path / "site" / "pkg" / "__init__.py").write_text("")
    code, report = gate(server, tmp_path, rc=rc)
    assert (code, report["verdict"]) == (0, "pass")
    # Their file systems are this machine's own, and may well be full.
    assert set(findings(report)) <= {"limit-processes", "disk-low", "home-full", "temporary-full", "shm-small"}


def test_an_import_that_ends_on_a_limit_of_the_session_names_it(server: Server, tmp_path: Path) -> None:
    (tmp_path / "site" / "pkg").mkdir(parents=True)
    (tmp_path / "site" / "pkg" / "__init__.py").write_text("held = [open('/dev/null') for _ in range(200)]\n")
    code, report = gate(server, tmp_path, rc="ulimit -n 100")
    message = findings(report)["os-error"]["message"]
    assert code == 3
    assert "Too many open files" in message
    assert "may open 100 files (`ulimit -n`): raise `nofile`" in message


def test_a_session_without_a_home_has_that_of_its_user(server: Server, tmp_path: Path) -> None:
    """Nothing is there in the home of whoever runs the tests; the path that was looked at says whose it is."""
    code, report = gate(server, tmp_path, rc="unset HOME", python="~/no such/python")
    assert (code, report["verdict"]) == (4, "unreachable")
    assert f"{pwd.getpwuid(os.geteuid()).pw_dir}/no such/python" in json.dumps(report)
