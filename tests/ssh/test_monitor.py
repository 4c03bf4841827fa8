"""`fab monitor` over real SSH servers: hosts that come and go, hang, are far away; and what watching costs them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jsonschema
import psutil
import pytest

from tests.running import until
from tests.ssh import sshd
from tests.ssh.proxy import Proxy
from tests.ssh.watching import FAB, ROW, Site, site

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.skipif(sshd.program() is None, reason="counts commands in the log of a real sshd")
SCHEMA = json.loads((Path(__file__).parents[2] / "docs" / "monitor.schema.json").read_text())
HANG = f"{10_000 + os.getpid()}.2"  # seconds: no other process of the tests sleeps as long
SCRIPT = "for i in $(seq 1 500); do echo done $i/500; sleep 0.2; done"


@pytest.fixture
def one(tmp_path: Path) -> Iterator[Site]:
    with site(tmp_path, ("gpu01",)) as made:
        yield made


@pytest.fixture
def two(tmp_path: Path) -> Iterator[Site]:
    with site(tmp_path, ("gpu01", "gpu02"), dead=True) as made:
        yield made


def states(document: dict[str, Any]) -> dict[str, str]:
    return {name: host["state"] for name, host in document["hosts"].items()}


def test_one_snapshot_of_all(two: Site) -> None:
    run = two.boxes["gpu01"].lab.start(SCRIPT)
    two.boxes["gpu01"].lab.logged(run, "done 3/500")
    two.boxes["gpu01"].lab.extracting(run)
    document = two.once()
    jsonschema.validate(document, SCHEMA)
    assert states(document) == {"gpu01": "live", "gpu02": "live", "dead": "unreachable"}
    working, idle, dead = document["hosts"].values()
    assert (working["run"], working["phase"], working["samples"]["total"]) == (run.id, "extracting", 500)
    assert working["line"].startswith("done ")
    assert [card["utilisation"] for card in working["gpus"]] == [97]
    assert working["disk"]["free"] > 0
    assert working["usd_spent"] >= 0
    assert (idle["run"], idle["phase"], idle["error"]) == (None, None, None)
    assert dead["last_seen"] is None
    assert "refuses connections" in dead["error"]
    shown = two.fab("monitor", "--once")
    assert shown.returncode == 4
    assert "3 hosts: " in shown.stdout
    assert two.fab("-H", "gpu01,gpu02", "monitor", "--once").returncode == 0


def test_watching_costs_a_host_one_command_per_interval(one: Site) -> None:
    box = one.boxes["gpu01"]
    box.lab.start(SCRIPT)
    with one.stream("--interval", "1s") as documents:
        documents.next()
        before, began = box.commands, time.monotonic()
        for _ in range(8):
            documents.next()
        started, took = box.commands - before, time.monotonic() - began
    assert 1 <= started <= took + 1
    assert box.logins == 1


def test_a_host_that_goes_and_comes_back(two: Site) -> None:
    box = two.boxes["gpu01"]
    run = box.lab.start(SCRIPT)
    with two.stream("--interval", "1s") as documents:
        documents.until(lambda seen: seen["hosts"]["gpu01"]["phase"] == "extracting")
        server = psutil.Process(box.server.pid)
        for process in (*server.children(recursive=True), server):
            process.kill()
        gone = documents.until(lambda seen: states(seen)["gpu01"] == "unreachable")
        assert gone["hosts"]["gpu01"]["phase"] == "extracting", "what it last said stands"
        assert gone["hosts"]["gpu01"]["last_seen"] is not None
        assert states(gone)["gpu02"] == "live"
        again = subprocess.Popen(
            [str(sshd.program()), "-D", "-e", "-f", str(box.server.folder / "config")],
            stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        try:
            back = documents.until(lambda seen: states(seen)["gpu01"] == "live")
            assert back["hosts"]["gpu01"]["run"] == run.id
        finally:
            sshd.stop(again)


def test_a_host_that_hangs_is_stale_then_unreachable_and_holds_nobody_up(two: Site) -> None:
    with Proxy(two.places["gpu01"]) as proxy:
        two.places["gpu01"] = proxy.port
        two.write()
        with two.stream("--interval", "1s") as documents:
            documents.until(lambda seen: states(seen)["gpu01"] == "live")
            proxy.stall()
            held = documents.until(lambda seen: states(seen)["gpu01"] != "live")
            assert held["hosts"]["gpu01"]["age"] > 5
            assert held["hosts"]["gpu02"]["age"] < 5
            documents.until(lambda seen: states(seen)["gpu01"] == "unreachable")
            proxy.resume()
            documents.until(lambda seen: states(seen)["gpu01"] == "live")


def test_a_link_of_two_hundred_milliseconds(one: Site) -> None:
    one.boxes["gpu01"].lab.extracting(one.boxes["gpu01"].lab.start(SCRIPT))
    with Proxy(one.places["gpu01"], delay=0.1) as proxy:
        one.places["gpu01"] = proxy.port
        one.write()
        with one.stream("--interval", "2s") as documents:
            found = documents.until(lambda seen: states(seen)["gpu01"] == "live")
            for _ in range(3):
                found = documents.next()
                assert states(found)["gpu01"] == "live"
        assert found["hosts"]["gpu01"]["phase"] == "extracting"
        assert proxy.accepted == 1


def sleepers() -> list[psutil.Process]:
    return [found for found in psutil.process_iter(["cmdline"]) if found.info["cmdline"] == ["sleep", HANG]]


def test_a_hung_nvidia_smi_piles_nothing_up(one: Site) -> None:
    box = one.boxes["gpu01"]
    box.smi(f"exec sleep {HANG}")  # a fake that never answers
    try:
        with one.stream("--interval", "1s") as documents:
            documents.until(lambda seen: seen["hosts"]["gpu01"]["gpu_error"])
            for _ in range(6):
                found = documents.next()
                assert states(found)["gpu01"] == "live"
                assert len(sleepers()) <= 1
            assert found["hosts"]["gpu01"]["disk"]["free"] > 0
            box.smi(f"echo '0, {ROW}'")
            for process in sleepers():
                process.kill()
            documents.until(lambda seen: seen["hosts"]["gpu01"]["gpus"])
    finally:
        for process in sleepers():
            process.kill()


def test_hosts_come_and_go_with_the_inventory(two: Site) -> None:
    del two.places["dead"], two.places["gpu02"]
    two.write()
    with two.stream("--interval", "1s") as documents:
        documents.until(lambda seen: states(seen) == {"gpu01": "live"})
        two.places["gpu02"] = two.boxes["gpu02"].server.port
        two.write()
        documents.until(lambda seen: states(seen) == {"gpu01": "live", "gpu02": "live"})
        text = two.inventory.read_text()
        two.inventory.write_text("nonsense")
        documents.next()
        assert states(documents.next()) == {"gpu01": "live", "gpu02": "live"}, "a mistake in it changes nothing"
        two.inventory.write_text(text)
        del two.places["gpu01"]
        two.write()
        documents.until(lambda seen: states(seen) == {"gpu02": "live"})
    assert two.boxes["gpu02"].logins == 1


@pytest.mark.parametrize(("script", "code"), [("echo well", 0), ("echo 'ValueError: no'; exit 3", 5)])
def test_until_done(one: Site, script: str, code: int) -> None:
    go = one.folder / "go"
    run = one.boxes["gpu01"].lab.start(f"while [ ! -e {go} ]; do sleep 0.05; done; {script}")
    with one.stream("--interval", "1s", "--until-done") as documents:
        documents.until(lambda seen: seen["hosts"]["gpu01"]["run"] == run.id)
        go.touch()
        assert documents.process.wait(60) == code


def test_what_the_log_says_is_masked(one: Site) -> None:
    run = one.boxes["gpu01"].lab.start("echo token hf_very_secret_value; sleep 60")
    one.boxes["gpu01"].lab.logged(run, "hf_very")
    until(lambda: one.once()["hosts"]["gpu01"]["line"] == "token ***")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--interval", "soon"], "--interval: expected a duration"),
        (["--interval", "10ms"], "--interval: expected a duration"),
        (["--log", "gpu09"], "--log: 'gpu09' is not among the hosts that are watched"),
        (["--log", "gpu01", "--json"], "--log: a log is shown on the live screen only"),
    ],
)
def test_options_that_cannot_work(one: Site, words: list[str], said: str) -> None:
    done = one.fab("monitor", *words)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in " ".join(done.stderr.split())
    assert one.boxes["gpu01"].commands == 0


def test_a_run_that_is_not_there_is_told(one: Site) -> None:
    done = one.fab("monitor", "--once", "--run", "20200101-000000-0000")
    assert done.returncode == 0
    assert "no run 20200101-000000-0000 here" in done.stdout


def test_without_a_terminal_it_is_a_table_per_round_and_ctrl_c_ends_it(one: Site) -> None:
    process = subprocess.Popen(
        [FAB, "monitor", "--interval", "1s"], cwd=Path(__file__).parents[2],
        env=one.environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    tables = 0
    for line in process.stdout:
        assert "\x1b" not in line
        tables += line.startswith("host ")
        if tables == 2:
            break
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Traceback" not in said
