"""One dataset over several hosts: dealt once, dealt anew when a host dies, never twice; one answer at the end."""

from __future__ import annotations

import dataclasses
import json
import os
import random
import re
import signal
import threading
from typing import TYPE_CHECKING, Any

import psutil
import pytest

from local import dealing, runs
from local.errors import GateRefused
from tests.chaos import pretend
from tests.running import until
from tests.ssh.fleet import SAMPLES, Fleet, machines, passes, plan_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from local.host import Host
    from local.session import Session
    from remote.schema import VerifyAnswer

NAMES = ("one", "two", "three")


@pytest.fixture(scope="module")
def pretence(tmp_path_factory: pytest.TempPathFactory) -> pretend.Pretence:
    return pretend.Pretence.make(tmp_path_factory.mktemp("pretence"))


@pytest.fixture
def fleet(tmp_path: Path, pretence: pretend.Pretence, monkeypatch: pytest.MonkeyPatch) -> Iterator[Fleet]:
    """Give three hosts and a laptop."""
    monkeypatch.setenv("FABRIC_INVENTORY", str(tmp_path / "inventory.toml"))
    monkeypatch.setenv("PRUDENT_GATE_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("COLUMNS", "220")
    with machines(tmp_path, NAMES) as hosts:
        made = Fleet(tmp_path, hosts, pretend.dataset(SAMPLES, random.Random(7)), pretence.python)  # noqa: S311
        made.write()
        yield made


@pytest.fixture
def eight(tmp_path: Path, pretence: pretend.Pretence, monkeypatch: pytest.MonkeyPatch) -> Iterator[Fleet]:
    """Give eight hosts and a laptop."""
    monkeypatch.setenv("FABRIC_INVENTORY", str(tmp_path / "inventory.toml"))
    monkeypatch.setenv("PRUDENT_GATE_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("COLUMNS", "220")
    with machines(tmp_path, [f"gpu{number}" for number in range(8)]) as hosts:
        yield Fleet(tmp_path, hosts, pretend.dataset(5 * SAMPLES, random.Random(8)), pretence.python)  # noqa: S311


def test_hosts_share_a_dataset_and_a_dead_one_holds_nobody_up(fleet: Fleet, capsys: pytest.CaptureFixture[str]) -> None:
    fleet.write(dead=True)
    assert fleet.fab("pass extract") == 4
    assert fleet.whole()
    assert all(machine.files for machine in fleet.machines.values())
    said = capsys.readouterr().err
    assert re.search(r"dead +\? .*takes no part: ", said)
    assert "What dead may hold is not known: it is dealt to the others" in said
    assert f"the dataset is whole: {SAMPLES} samples on 3 hosts" in said
    for name, machine in fleet.machines.items():
        assert machine.shards() == [f"{min(machine.files)}-{max(machine.files)}"]
        assert f"{len(machine.files)} of {len(machine.files)} samples valid" in said
        assert re.search(rf"^ *{name} +pass ✓ +extract ✓", said, re.MULTILINE)


def test_the_slowest_of_eight_hosts_holds_nobodys_output_back(eight: Fleet, capsys: pytest.CaptureFixture[str]) -> None:
    eight.write(slow={"gpu3": 1.0}, dead=True)
    assert eight.fab("pass extract") == 4
    assert eight.whole()
    said = capsys.readouterr().err
    ended = re.findall(r"^ *(gpu\d) │ verified", said, re.MULTILINE)
    assert sorted(ended) == sorted(eight.machines)
    assert ended[-1] == "gpu3"
    assert f"the dataset is whole: {5 * SAMPLES} samples on 8 hosts" in said


def test_a_host_that_dies_leaves_holes_that_the_next_round_fills(
    fleet: Fleet, capsys: pytest.CaptureFixture[str]
) -> None:
    fleet.write(seconds=0.3)
    killing = threading.Thread(target=lambda: (fleet.at_work("two"), fleet.machines["two"].kill()))
    killing.start()
    assert fleet.fab("pass extract") == 5
    killing.join()
    said = capsys.readouterr().err
    assert "is lost" in said
    assert not fleet.whole()
    before = {name: machine.files for name, machine in fleet.machines.items()}
    fleet.write(seconds=0.01)
    assert fleet.fab("pass extract") == 0
    assert fleet.whole()
    for name, machine in fleet.machines.items():
        assert before[name].items() <= machine.files.items(), "computed again"
    assert "the dataset is whole" in capsys.readouterr().err
    assert fleet.fab("pass extract") == 0
    assert {name: len(machine.runs) for name, machine in fleet.machines.items()} == {"one": 2, "two": 2, "three": 2}
    assert capsys.readouterr().err.count("nothing was dealt to this host: every sample stands") == 3


def test_a_host_that_is_gone_is_done_without_and_what_comes_back_is_told_as_doubled(
    fleet: Fleet, capsys: pytest.CaptureFixture[str]
) -> None:
    assert fleet.fab("-H one,two pass extract") == 0
    assert fleet.whole()
    held = fleet.machines["two"].files
    assert fleet.fab("-H one,three pass extract") == 0  # `two` is not there: what it holds is done again
    assert set(fleet.machines["one"].files) | set(fleet.machines["three"].files) == set(range(SAMPLES))
    capsys.readouterr()
    assert fleet.fab("verify --json") == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["whole"], document["valid"], document["missing"]) == (True, f"0-{SAMPLES - 1}", "")
    assert document["doubled"] == f"{min(held)}-{max(held)}"
    assert {name: host["error"] for name, host in document["hosts"].items()} == dict.fromkeys(NAMES)


def test_what_runs_is_attached_to_and_not_dealt_again(fleet: Fleet, capsys: pytest.CaptureFixture[str]) -> None:
    fleet.write(seconds=1.0)
    assert fleet.fab("-H one,two pass extract --detach") == 0
    fleet.at_work("one")
    fleet.at_work("two")
    with fleet.machines["one"].frozen(), fleet.machines["two"].frozen():
        assert fleet.fab("pass extract --detach") == 0
        said = capsys.readouterr().err
        assert said.count("attached to the run") == 2
        assert re.search(r"three │ nothing was dealt to this host: \d+ samples are being worked on elsewhere", said)
    assert fleet.fab("pass extract") == 0
    assert fleet.whole()
    assert {name: len(machine.runs) for name, machine in fleet.machines.items()} == {"one": 1, "two": 1, "three": 0}


def test_a_dry_run_shows_the_plan_and_starts_nothing(fleet: Fleet, capsys: pytest.CaptureFixture[str]) -> None:
    assert fleet.fab("pass extract --dry-run --json") == 0
    plan = plan_of(capsys.readouterr().out)
    assert (plan["total"], plan["dealt"], plan["standing"], list(plan["hosts"])) == (SAMPLES, SAMPLES, "", [*NAMES])
    assert sum(host["tokens"] for host in plan["hosts"].values()) == sum(len(one.tokens) for one in fleet.samples)
    assert fleet.fab("pass extract --dry-run") == 0
    assert f"{SAMPLES} samples: 0 stand, {SAMPLES} are dealt now" in capsys.readouterr().out
    assert fleet.fab("-H one pass extract --dry-run --json") == 0
    assert plan_of(capsys.readouterr().out)["hosts"]["one"]["shard"] == f"0-{SAMPLES - 1}"
    assert not any(machine.runs or machine.files for machine in fleet.machines.values())


def test_one_host_alone_does_the_whole_without_a_census(fleet: Fleet) -> None:
    assert fleet.fab("-H one pass extract") == 0
    assert fleet.machines["one"].shards() == [None]
    assert not (fleet.machines["one"].output / ".prudent-gate.id").exists()
    assert fleet.whole()


def test_a_run_of_other_samples_is_held_to_its_own(fleet: Fleet, capsys: pytest.CaptureFixture[str]) -> None:
    """It has done what it was started for: no hook may say that it failed, and the rest is still to be done."""
    told = fleet.folder / "told"
    hooks = "".join(f"{name} = {{ laptop = 'echo {name} >> {told}' }}\n" for name in ("on_done", "on_failed"))
    fleet.write(seconds=1.0, more=f"[jobs.states.hooks]\n{hooks}")
    assert fleet.fab("-H one,two pass extract --detach") == 0
    fleet.at_work("one")
    assert fleet.fab("-H one pass extract") == 75
    said = capsys.readouterr().err
    assert "not what this command wanted of this host" in said
    assert "missing" not in said.replace("it does what is missing", "")
    assert told.read_text() == "on_done\n"
    fleet.write(seconds=0.01)
    assert fleet.fab("-H one pass extract") == 0
    assert set(fleet.machines["one"].files) == set(range(SAMPLES))


def test_of_a_host_that_its_hook_has_shut_down_its_own_word_counts_for_the_whole(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fleet.write(more="[jobs.states.hooks]\non_done = { host = '[ ! -e ~/off ] || sh ~/off' }\n")
    server = fleet.machines["one"].server
    (server.home / "off").write_text(f"pkill -9 -P {server.pid}; kill -9 {server.pid}")
    verify = runs.verify

    def late(host: Host, *words: Any, **more: Any) -> VerifyAnswer:
        if host.name == "one":
            until(lambda: psutil.Process(server.pid).status() == psutil.STATUS_ZOMBIE, "the shutdown")
        return verify(host, *words, **more)

    monkeypatch.setattr(runs, "verify", late)
    assert fleet.fab("-H one,two pass extract") == 0
    said = capsys.readouterr().err
    assert "the run itself had verified its outputs" in said
    assert f"the dataset is whole: {SAMPLES} samples on 2 hosts" in said


def test_a_dataset_that_changes_after_the_deal_is_not_mixed_in(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for machine in fleet.machines.values():
        pretend.write_dataset(machine.server.home / "data.jsonl", fleet.samples)
    inventory = fleet.folder / "inventory.toml"
    inventory.write_text(inventory.read_text().replace(str(fleet.dataset), "~/data.jsonl"))
    show = dealing.show

    def shown(session: Session, plan: Any) -> None:
        if session.name == "two":
            pretend.write_dataset(fleet.machines["two"].server.home / "data.jsonl", fleet.samples[::-1])
        show(session, plan)

    monkeypatch.setattr(dealing, "show", shown)
    assert fleet.fab("pass extract") == 5
    assert not fleet.machines["two"].files
    said = capsys.readouterr().err
    assert "are not those that this host's part was dealt from" in said
    assert "the dataset is whole" not in said


def test_one_host_alone_says_what_it_holds_of_the_whole(fleet: Fleet, capsys: pytest.CaptureFixture[str]) -> None:
    assert fleet.fab("-H one,two pass extract") == 0
    capsys.readouterr()
    assert fleet.fab("-H one verify") == 5
    files = fleet.machines["one"].files
    assert f"This host holds {min(files)}-{max(files)}" in capsys.readouterr().err
    assert fleet.fab("-H one pass extract") == 0
    said = capsys.readouterr().err
    assert f"did a part of this dataset with other hosts ({min(files)}-{max(files)})" in said
    assert set(fleet.machines["one"].files) == set(range(SAMPLES))


def test_damage_is_found_by_verify_and_dealt_by_the_next_round(
    fleet: Fleet, capsys: pytest.CaptureFixture[str]
) -> None:
    assert fleet.fab("pass extract") == 0
    place = fleet.machines["two"]
    first, *_, last = sorted(place.files)
    sample = place.output / f"data_{first}.pt"
    sample.write_bytes(bytes(sample.stat().st_size))
    (place.output / f"data_{last}.pt").unlink()
    capsys.readouterr()
    assert fleet.fab("verify") == 5
    told = capsys.readouterr()
    assert f"2 of {SAMPLES} samples are valid on no host: {first}, {last}" in told.err
    assert f"the dataset: {SAMPLES - 2} of {SAMPLES} samples are valid, 2 are missing everywhere" in told.out
    assert fleet.fab("pass extract verify") == 0
    assert fleet.whole() or len(set(fleet.standing())) == SAMPLES


def test_hosts_of_two_datasets_do_not_share_a_job(fleet: Fleet, capsys: pytest.CaptureFixture[str]) -> None:
    other = fleet.folder / "other.jsonl"
    pretend.write_dataset(other, fleet.samples[::-1])
    fleet.write()

    def gate(session: Session) -> None:
        if session.name == "two":
            session.target = dataclasses.replace(
                session.target, job=dataclasses.replace(session.target.job, dataset=str(other))
            )
        passes(session)

    assert fleet.fab("pass extract", gate) == 2
    said = capsys.readouterr().err
    assert f"the dataset of one, three ({SAMPLES} samples) is not that of two ({SAMPLES} samples)" in said
    assert said.count("Why is told under one") == 2
    assert not any(machine.runs for machine in fleet.machines.values())


def test_hosts_that_write_to_one_folder_do_not_share_a_job(fleet: Fleet, capsys: pytest.CaptureFixture[str]) -> None:
    shared = fleet.folder / "shared"
    shared.mkdir()
    for name in ("one", "three"):
        fleet.machines[name].output.symlink_to(shared)
    assert fleet.fab("pass extract") == 2
    assert "the hosts one, three write to one output folder" in capsys.readouterr().err
    assert not any(machine.runs for machine in fleet.machines.values())


def test_a_folder_that_another_workdir_works_on_takes_no_part(fleet: Fleet, capsys: pytest.CaptureFixture[str]) -> None:
    fleet.write(seconds=1.0)
    assert fleet.fab("-H one,two pass extract --detach") == 0
    fleet.at_work("one")
    fleet.at_work("two")
    before = fleet.machines["one"].shards()

    def gate(session: Session) -> None:
        if session.name == "one":
            job = dataclasses.replace(session.target.job, workdir="~/elsewhere")
            session.target = dataclasses.replace(session.target, job=job)
        passes(session)

    with fleet.machines["one"].frozen(), fleet.machines["two"].frozen():
        assert fleet.fab("pass extract --detach", gate) == 3
        said = capsys.readouterr().err
        assert "nothing was dealt to this host: the run" in said
        assert fleet.machines["one"].shards() == before
        assert not fleet.machines["three"].runs, "what the other run works on was dealt again"
    assert fleet.fab("-H one,two stop") == 0


def test_what_a_host_holds_that_its_gate_refuses_is_not_done_again(
    fleet: Fleet, capsys: pytest.CaptureFixture[str]
) -> None:
    assert fleet.fab("-H one,two pass extract") == 0
    held = fleet.machines["two"].files
    missing = fleet.machines["one"].output / "data_0.pt"
    missing.unlink()

    def gate(session: Session) -> None:
        if session.name == "two":
            raise GateRefused("the cards are ill")
        passes(session)

    capsys.readouterr()
    assert fleet.fab("pass extract", gate) == 3
    assert fleet.whole(), "dealt again, though it stood"
    assert fleet.machines["two"].files == held
    assert "the cards are ill" in capsys.readouterr().err


def test_whoever_is_late_is_not_waited_for(fleet: Fleet, capsys: pytest.CaptureFixture[str]) -> None:
    going = threading.Event()

    def gate(session: Session) -> None:
        if session.name == "three":
            until(lambda: going.is_set() or fleet.machines["one"].runs, "the others to go on")
        passes(session)

    assert fleet.fab("pass extract --wait 3", gate) == 75
    assert fleet.whole()
    said = capsys.readouterr().err
    assert "waiting for the gate of" in said
    assert "the other hosts did not wait for this one's gate: nothing was dealt to it" in said
    assert not fleet.machines["three"].runs


def test_ctrl_c_while_waiting_ends_at_once(fleet: Fleet, capsys: pytest.CaptureFixture[str]) -> None:
    held = threading.Event()
    waiting: list[Any] = []

    def gate(session: Session) -> None:
        if session.name == "three":
            held.wait(60.0)
            session.check_interrupt()
        passes(session)
        waiting.append(session)

    def interrupt() -> None:
        until(lambda: len(waiting) == 2, "two hosts that are ready")
        os.kill(os.getpid(), signal.SIGINT)
        until(lambda: all(session.interrupted.is_set() for session in waiting), "the interrupt")
        held.set()

    thread = threading.Thread(target=interrupt)
    thread.start()
    assert fleet.fab("pass extract", gate) == 130
    thread.join()
    assert "no run was started there" in capsys.readouterr().err
    assert not any(machine.runs for machine in fleet.machines.values())
