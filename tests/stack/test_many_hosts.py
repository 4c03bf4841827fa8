"""The real stack over two loopback hosts gives the hidden states that one host alone gives."""

from __future__ import annotations

import dataclasses
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.ssh.fleet import Fleet, machines, passes
from tests.stack.conftest import packed

if TYPE_CHECKING:
    from local.session import Session
    from tests.stack.conftest import Stack

SAMPLES = 20
TOLERANCE = 0.02  # what bfloat16 may differ when prompts share a step with others than before
pytestmark = pytest.mark.stack


def gate(session: Session) -> None:
    """Let a host pass with the bundle that the series makes for it."""
    made = packed(session.job)
    session.host.push(made)
    passes(session, made.id)


def test_two_hosts_give_the_states_of_one(stack: Stack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FABRIC_INVENTORY", str(tmp_path / "inventory.toml"))
    monkeypatch.setenv("PRUDENT_GATE_STATE", str(tmp_path / "state"))
    lines = Path(stack.job.dataset).read_text().splitlines()[:SAMPLES]
    with machines(tmp_path, ("alone", "one", "two")) as hosts:
        fleet = Fleet(tmp_path, hosts, [], Path(stack.python))
        fleet.write()
        fleet.dataset.write_text("\n".join(lines) + "\n")
        inventory = (tmp_path / "inventory.toml").read_text()
        for old, new in (
            (f'model = "{tmp_path}/model"', f'model = "{stack.job.model}"'),
            ("layers = [2, 5]", f"layers = {list(stack.job.layers)}\nmax_model_len = 512"),
            ("retry = {", "env = { VLLM_CPU_KVCACHE_SPACE = 1 }\nretry = {"),
        ):
            assert old in inventory
            inventory = inventory.replace(old, new)
        # A core each: two engines on the same ones wait for each other for minutes.
        for place, name in enumerate(hosts):
            core = place % (os.cpu_count() or 1)
            start = inventory.index(f"[hosts.{name}]")
            inventory = inventory[:start] + inventory[start:].replace(
                "STANDIN_SECONDS = 0.01", f'VLLM_CPU_OMP_THREADS_BIND = "{core}"', 1
            )
        (tmp_path / "inventory.toml").write_text(inventory)
        assert fleet.fab("-H alone pass extract", gate) == 0
        assert fleet.fab("-H one,two pass extract verify", gate) == 0
        folders = {name: str(machine.output) for name, machine in hosts.items()}
        assert hosts["one"].files
        assert hosts["two"].files
        assert sorted([*hosts["one"].files, *hosts["two"].files]) == list(range(SAMPLES))
        script = dataclasses.replace(stack, root=tmp_path).script
        told = script("same_states.py", folders["alone"], folders["one"], folders["two"])
    assert (told["samples"], told["unlike"]) == (SAMPLES, [])
    assert told["worst"] <= TOLERANCE, json.dumps(told)
