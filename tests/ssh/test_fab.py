"""Plain `fab` from end to end over a real sshd: names, chains, exit codes, streams, Ctrl-C; the job is a script."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests import hostpython
from tests.laptop import environment
from tests.ssh.servers import dead_port, make_key

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.ssh.servers import Server

ROOT = Path(__file__).resolve().parents[2]
FAB = str(Path(sys.executable).parent / "fab")
LIMIT = 120.0


@dataclass
class Laptop:
    """A laptop with an inventory of its own; `script` is the job."""

    folder: Path
    server: Server

    @property
    def inventory(self) -> Path:
        return self.folder / "inventory.toml"

    @property
    def output(self) -> Path:
        return self.folder / "output"

    def write(self, script: str = "echo hello", *, defaults: str = "", more: str = "") -> None:
        self.inventory.write_text(
            f"""
[defaults]
user = "{self.server.user}"
ssh_config = "none"
python = "{hostpython.python()}"
workdir = "{self.folder}/workdir"
secret_env = ["TEST_TOKEN"]
{defaults}
[hosts.gpu]
address = "127.0.0.1"
port = {self.server.port}
identity_file = "{self.server.identity}"
groups = ["real"]
[hosts.dead]
address = "127.0.0.1"
port = {dead_port()}
identity_file = "{self.server.identity}"
{more}
[jobs.script]
engine = "command"
device = "cpu"
command = ["sh", "-c", {json.dumps(script)}]
output = "{self.output}"
retry = {{ transient = 0 }}
""",
            encoding="utf-8",
        )

    def environment(self) -> dict[str, str]:
        return environment(self.folder, TEST_TOKEN="hf_very_secret_value", COLUMNS="160")

    def fab(self, *words: str) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [FAB, *words], cwd=ROOT, env=self.environment(), capture_output=True, text=True, timeout=LIMIT, check=False
        )
        assert "Traceback" not in done.stderr
        assert "very_secret" not in done.stdout + done.stderr
        return done

    def shell(self, line: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run a line of bash in which $FAB is fab."""
        environment = {**self.environment(), "FAB": FAB, **variables}
        return subprocess.run(
            ["bash", "-o", "pipefail", "-c", line], cwd=ROOT, env=environment, capture_output=True, text=True,
            timeout=LIMIT, check=False,
        )  # fmt: skip

    def start(self, *words: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [FAB, *words], cwd=ROOT, env=self.environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    def status(self) -> dict[str, object]:
        found: dict[str, object] = json.loads(self.fab("-H", "gpu", "status", "--json").stdout)["hosts"]["gpu"]
        return found


@pytest.fixture
def laptop(tmp_path: Path, sshd_server: Server) -> Iterator[Laptop]:
    made = Laptop(tmp_path, sshd_server)
    made.write()
    yield made
    if (tmp_path / "workdir" / "runs").exists():
        made.fab("-H", "gpu", "stop")


def wait_for(path: Path) -> None:
    """Wait until the job has written a file."""
    until = time.monotonic() + LIMIT
    while not path.exists():
        assert time.monotonic() < until, f"{path} did not come"
        time.sleep(0.05)


def test_a_chain_gates_runs_and_follows(laptop: Laptop) -> None:
    laptop.write("echo hello; echo $TEST_TOKEN; printf 'no end'")
    done = laptop.fab("-H", "gpu", "preflight", "extract")
    assert done.returncode == 0, done.stderr
    assert "PASS" in done.stderr
    assert re.search(r"^hello$", done.stderr, re.MULTILINE)
    assert re.search(r"^\*\*\*$", done.stderr, re.MULTILINE)
    assert re.search(r"gpu +preflight ✓ +extract ✓ +done .* 0\s*$", done.stderr, re.MULTILINE)
    assert done.stdout == ""
    log = laptop.fab("-H", "gpu", "logs")
    assert log.stdout.splitlines() == ["hello", "***", "no end"]
    found = laptop.status()
    assert (found["phase"], found["exit"]) == ("done", 0)
    assert laptop.fab("-H", "gpu", "status", "--run", str(found["run"])).returncode == 0


def test_one_connection_serves_the_whole_chain_but_for_the_stream(laptop: Laptop) -> None:
    if laptop.server.kind != "sshd":
        pytest.skip("counts the connections in sshd's log")
    log = laptop.server.folder / "log"
    assert laptop.fab("-H", "gpu", "preflight").returncode == 0  # its levels are a stream, where they are looked at
    before = log.read_text().count("Accepted publickey")
    assert laptop.fab("-H", "gpu", "preflight", "status", "runs", "hosts").returncode == 0
    assert log.read_text().count("Accepted publickey") == before + 1


def test_names_groups_ad_hoc_hosts_and_the_whole_inventory(laptop: Laptop) -> None:
    server = laptop.server
    assert laptop.fab("-H", "real", "runs").returncode == 0
    assert (
        laptop.fab("-H", f"{server.user}@127.0.0.1:{server.port}", "-i", str(server.identity), "runs").returncode == 0
    )
    done = laptop.fab("preflight", "extract", "--detach")
    assert done.returncode == 4
    assert re.search(r"gpu +preflight ✓ +extract ✓", done.stderr)
    assert re.search(r"dead +preflight ✗ +Unreachable", done.stderr)
    assert "dead │ error" in done.stderr


def test_results_alone_are_on_standard_output(laptop: Laptop) -> None:
    report = laptop.fab("preflight", "--report", "-")
    assert report.returncode == 4
    hosts = json.loads(report.stdout)["hosts"]
    assert (hosts["gpu"]["verdict"], hosts["dead"]["verdict"]) == ("pass", "unreachable")
    status = laptop.fab("status", "--json")
    assert status.returncode == 4
    assert {host["phase"] for host in json.loads(status.stdout)["hosts"].values()} == {"unknown"}
    patches = json.loads(laptop.fab("-H", "gpu", "patches", "--json").stdout)
    assert patches["schema"] == 1
    assert {patch["applies"] for patch in patches["patches"]} == {False}


def test_a_job_that_fails_is_code_5_with_its_root_line(laptop: Laptop) -> None:
    laptop.write("echo 'ValueError: layer 99 of 61' >&2; exit 3")
    done = laptop.fab("-H", "gpu", "extract")
    assert done.returncode == 5
    last = done.stderr.rpartition("error")[2]
    assert "failed (fatal, config): ValueError: layer 99 of 61" in " ".join(last.split())
    assert "A setting of the job is wrong." in last
    assert "logs --run" in done.stderr


def test_ctrl_c_leaves_the_run_alone_and_extract_attaches_again(laptop: Laptop) -> None:
    go, began = laptop.folder / "go", laptop.folder / "began"
    laptop.write(f"touch {began}; echo first; while [ ! -e {go} ]; do sleep 0.05; done; echo last")
    watching = laptop.start("-H", "gpu", "extract")
    wait_for(began)
    assert watching.stderr is not None
    for line in watching.stderr:
        if line.strip() == "first":
            break
    watching.send_signal(signal.SIGINT)
    _, said = watching.communicate(timeout=LIMIT)
    assert watching.returncode == 130
    found = laptop.status()
    assert f"fab -H gpu logs --follow --run {found['run']}" in said
    assert found["phase"] not in {"done", "failed", "stopped", "lost"}
    again = laptop.start("-H", "gpu", "extract")
    assert again.stderr is not None
    for line in again.stderr:
        if line.strip() == "first":
            break
    go.touch()
    _, rest = again.communicate(timeout=LIMIT)
    assert again.returncode == 0
    assert re.search(r"^last$", rest, re.MULTILINE)
    assert len([line for line in laptop.fab("-H", "gpu", "runs").stdout.splitlines() if " gpu " in line]) == 1


def test_stop_ends_the_run_and_leaves_nothing(laptop: Laptop) -> None:
    began = laptop.folder / "began"
    laptop.write(f"sleep 600 & touch {began}; sleep 600")
    assert laptop.fab("-H", "gpu", "extract", "--detach").returncode == 0
    wait_for(began)
    done = laptop.fab("-H", "gpu", "stop")
    assert done.returncode == 0
    assert "nothing of it is left" in done.stderr
    assert laptop.status()["phase"] == "stopped"
    again = laptop.fab("-H", "gpu", "stop")
    assert (again.returncode, "nothing was running" in again.stderr) == (0, True)


def test_a_key_that_is_not_let_in_is_code_4(laptop: Laptop) -> None:
    other = make_key(laptop.folder / "other_key")
    text = laptop.inventory.read_text().replace(str(laptop.server.identity), str(other))
    laptop.inventory.write_text(text)
    done = laptop.fab("-H", "gpu", "runs")
    laptop.write()
    assert done.returncode == 4
    assert "lets none of our keys in" in done.stderr
    assert "identity_file" in done.stderr


def test_a_changed_host_key_is_code_6_and_an_unknown_one_under_strict(laptop: Laptop) -> None:
    pins = laptop.folder / "state" / "known_hosts"
    pins.parent.mkdir()
    other = make_key(laptop.folder / "other_key").with_suffix(".pub").read_text().rsplit(" ", 1)[0]
    pins.write_text(f"[127.0.0.1]:{laptop.server.port} {other}\n")
    done = laptop.fab("-H", "gpu,dead", "runs")
    assert done.returncode == 6
    assert "has changed" in done.stderr
    pins.unlink()
    laptop.write(defaults='host_key = "strict"')
    done = laptop.fab("-H", "gpu", "runs")
    laptop.write()
    assert done.returncode == 6
    assert "not known" in done.stderr


@pytest.mark.parametrize("python", ["/nowhere/bin/python", "/bin/true", "/etc/passwd"])
def test_a_python_that_is_none_is_code_4(laptop: Laptop, python: str) -> None:
    laptop.inventory.write_text(laptop.inventory.read_text().replace(hostpython.python(), python))
    done = laptop.fab("-H", "gpu", "preflight")
    laptop.write()
    assert done.returncode == 4
    assert python in done.stderr


def test_a_run_that_does_not_exist_is_code_2(laptop: Laptop) -> None:
    for task in ("status", "logs", "stop"):
        done = laptop.fab("-H", "gpu", task, "--run", "20200101-000000-0000")
        assert done.returncode == 2
        assert "20200101-000000-0000" in done.stderr


def test_a_mistake_in_the_inventory_is_code_2_before_anything_is_reached(laptop: Laptop) -> None:
    laptop.inventory.write_text(laptop.inventory.read_text().replace("engine =", "engin ="))
    done = laptop.fab("preflight")
    laptop.write()
    assert done.returncode == 2
    assert "jobs.script: unknown key 'engin'" in done.stderr
    assert "Did you mean 'engine'?" in done.stderr


def test_the_list_reads_well(laptop: Laptop) -> None:
    done = laptop.fab("--list")
    assert done.returncode == 0
    tasks = [line.split()[0] for line in done.stdout.splitlines()[1:] if line.strip()]
    assert {"extract", "hosts", "logs", "patches", "preflight", "runs", "status", "stop", "verify", "demo.up"} <= set(
        tasks
    )
    assert len(max(done.stdout.splitlines(), key=len)) <= 80


def test_however_often_ctrl_c_is_pressed_the_way_back_is_told(laptop: Laptop) -> None:
    began = laptop.folder / "began"
    laptop.write(f"touch {began}; echo first; sleep 600")
    watching = laptop.start("-H", "gpu", "extract")
    wait_for(began)
    assert watching.stderr is not None
    for line in watching.stderr:
        if line.strip() == "first":
            break
    for _ in range(20):
        watching.send_signal(signal.SIGINT)
    _, said = watching.communicate(timeout=LIMIT)
    assert "fab -H gpu logs --follow --run" in said
    assert "Traceback" not in said


def test_a_python_by_its_bare_name_runs_the_job_too(laptop: Laptop) -> None:
    laptop.inventory.write_text(laptop.inventory.read_text().replace(hostpython.python(), "python3"))
    done = laptop.fab("-H", "gpu", "extract")
    laptop.write()
    assert done.returncode == 0, done.stderr


def test_a_named_key_that_is_absent_is_told(laptop: Laptop) -> None:
    absent = str(laptop.folder / "absent_key")
    text = laptop.inventory.read_text().replace(str(laptop.server.identity), absent)
    laptop.inventory.write_text(text)
    done = laptop.fab("-H", "gpu", "runs")
    laptop.write()
    assert done.returncode == 4
    assert f"{absent} (does not exist)" in done.stderr


def test_attaching_to_the_run_of_another_job_is_told(laptop: Laptop) -> None:
    laptop.write("sleep 600")
    first = laptop.fab("-H", "gpu", "extract", "--detach")
    same = laptop.fab("-H", "gpu", "extract", "--detach")
    laptop.write("echo quite another")
    other = laptop.fab("-H", "gpu", "extract", "--detach")
    assert [done.returncode for done in (first, same, other)] == [0, 0, 0]
    assert "attached to the run" in same.stderr
    assert ["was started for another job" in done.stderr for done in (first, same, other)] == [False, False, True]


def test_a_report_that_cannot_be_written_is_told_before_the_gate(laptop: Laptop) -> None:
    done = laptop.fab("-H", "gpu", "preflight", "--report", str(laptop.folder / "absent" / "report.json"))
    assert done.returncode == 2
    assert "cannot be written" in done.stderr
    assert "reach" not in done.stderr


def test_standard_output_that_fails_is_no_fault_of_ours(laptop: Laptop) -> None:
    assert laptop.fab("-H", "gpu", "extract").returncode == 0
    cut = laptop.shell("$FAB -H gpu logs --follow | true")  # which has ended before there is anything to read
    assert (cut.returncode, cut.stderr) == (141, "")
    full = laptop.shell("$FAB -H gpu status --json >/dev/full")
    assert full.returncode == 1
    assert "standard output cannot be written: No space left" in full.stderr
    assert "fault of ours" not in full.stderr
    assert laptop.shell("$FAB -H gpu status --json >&-").returncode == 0


@pytest.mark.parametrize("tasks", ["hosts", "patches", "preflight"])
def test_a_locale_that_knows_ascii_alone_is_enough(laptop: Laptop, tasks: str) -> None:
    done = laptop.shell(f"$FAB -H gpu {tasks}", LC_ALL="C", PYTHONUTF8="0", PYTHONCOERCECLOCALE="0")
    assert done.returncode == 0, done.stderr
    (done.stdout + done.stderr).encode("ascii")


def test_a_command_has_no_plan(laptop: Laptop) -> None:
    done = laptop.fab("-H", "gpu", "extract", "--dry-run")
    assert done.returncode == 2
    assert "nothing is known of the samples of the engine 'command'" in done.stderr
    assert not (laptop.folder / "workdir").exists()
