"""The addresses and interfaces that a job names, tried on this machine's own network."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from remote import schema
from remote.host import network

if TYPE_CHECKING:
    from conftest import Stage

ROOT = Path(__file__).parents[2]
ELSEWHERE = "198.51.100.7"  # for documentation: nobody's
ASK = "import json, sys; from remote.host import network; print(json.dumps(network.troubles(json.loads(sys.argv[1]))))"


def asked_alone(environment: dict[str, str], *before: str) -> dict[str, str]:
    """Ask in a network of its own, after some commands there; skips where none can be made."""
    if subprocess.run(["unshare", "-rn", "true"], capture_output=True, check=False).returncode:
        pytest.skip("no network namespace can be made here")
    line = "; ".join((*before, 'exec "$@"'))
    words = ["unshare", "-rn", "sh", "-c", line, "sh", sys.executable, "-c", ASK, json.dumps(environment)]
    done = subprocess.run(words, capture_output=True, text=True, cwd=ROOT, check=True, timeout=30)
    found: dict[str, str] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("address", ["127.0.0.1", "127.0.0.5", "localhost", "0.0.0.0"])  # noqa: S104 - torch takes it, too
def test_an_address_where_processes_meet_is_no_trouble(address: str) -> None:
    assert network.troubles({"VLLM_LOOPBACK_IP": address, "VLLM_HOST_IP": address}) == {}


@pytest.mark.parametrize("address", [ELSEWHERE, "no.such.name.invalid", "a" * 300, "::ffff:198.51.100.7", "300.1.1.1"])
def test_an_address_that_is_not_this_machines_is_told_soon(address: str) -> None:
    began = time.monotonic()
    found = network.troubles({"VLLM_LOOPBACK_IP": address})
    assert list(found) == ["VLLM_LOOPBACK_IP"]
    assert found["VLLM_LOOPBACK_IP"]
    assert time.monotonic() - began < network.PATIENCE + 2


def test_a_resolver_that_does_not_answer_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    enough = threading.Event()

    def slow(*_words: object, **_more: object) -> None:
        enough.wait()
        raise socket.gaierror

    monkeypatch.setattr(network, "PATIENCE", 0.2)
    monkeypatch.setattr(socket, "getaddrinfo", slow)
    found = network.troubles({"VLLM_LOOPBACK_IP": "slow.invalid"})
    enough.set()
    for thread in threading.enumerate():
        if thread.name == "network-trial":
            thread.join()
    assert found == {"VLLM_LOOPBACK_IP": "nothing answers within 0.2 s"}


def test_nothing_said_is_no_trouble() -> None:
    assert network.troubles({}) == {}
    assert network.troubles({"VLLM_LOOPBACK_IP": "", "GLOO_SOCKET_IFNAME": "", "NCCL_SOCKET_IFNAME": ""}) == {}


@pytest.mark.parametrize(
    ("name", "said", "trouble"),
    [
        ("GLOO_SOCKET_IFNAME", "lo", ""),
        ("GLOO_SOCKET_IFNAME", "lo,", ""),  # torch takes it
        ("GLOO_SOCKET_IFNAME", "x", ""),  # torch passes over it
        ("GLOO_SOCKET_IFNAME", "absent9", "there is no interface 'absent9'"),
        ("GLOO_SOCKET_IFNAME", "lo,absent9", "there is no interface 'absent9'"),
        ("GLOO_SOCKET_IFNAME", "lo,,lo", "there is no interface ''"),
        ("NCCL_SOCKET_IFNAME", "lo", ""),
        ("NCCL_SOCKET_IFNAME", "absent,l", ""),
        ("NCCL_SOCKET_IFNAME", "lo:1234", ""),
        ("NCCL_SOCKET_IFNAME", "=lo", ""),
        ("NCCL_SOCKET_IFNAME", "=l", "no interface with an address fits it"),
        ("NCCL_SOCKET_IFNAME", "absent", "no interface with an address fits it"),
        ("NCCL_SOCKET_IFNAME", "^absent", ""),
        ("NCCL_SOCKET_IFNAME", "^=l", ""),
    ],
)
def test_interfaces(name: str, said: str, trouble: str) -> None:
    found = network.troubles({name: said}).get(name, "")
    assert found.startswith(trouble)
    assert bool(found) == bool(trouble)


def test_an_interface_without_an_address_is_none_to_meet_on() -> None:
    up = ("ip link set lo up", "ip link add bare0 type bridge")
    found = asked_alone({"GLOO_SOCKET_IFNAME": "bare0", "NCCL_SOCKET_IFNAME": "bare"}, *up)
    assert found["GLOO_SOCKET_IFNAME"] == "the interface 'bare0' has no address"
    assert found["NCCL_SOCKET_IFNAME"].startswith("no interface with an address fits it")
    assert set(asked_alone({"NCCL_SOCKET_IFNAME": "^lo"}, *up)) == {"NCCL_SOCKET_IFNAME"}


def test_a_loopback_that_is_down_is_told_unless_another_address_is_named() -> None:
    assert list(asked_alone({})) == ["loopback"]
    assert list(asked_alone({"VLLM_LOOPBACK_IP": "127.0.0.1"})) == ["VLLM_LOOPBACK_IP"]
    assert asked_alone({}, "ip link set lo up") == {}


def test_another_machine_that_answers_is_not_this_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a gateway take every connection, as some do: the one that came through never reached us."""
    with socket.create_server(("127.0.0.1", 0)) as gateway:
        connect = socket.socket.connect

        def redirected(self: socket.socket, _place: object) -> None:
            connect(self, gateway.getsockname())

        monkeypatch.setattr(network, "PATIENCE", 0.4)
        monkeypatch.setattr(socket.socket, "connect", redirected)
        assert network.troubles({"VLLM_LOOPBACK_IP": ELSEWHERE}) != {}


def test_the_facts_have_what_the_jobs_environment_names(stage: Stage) -> None:
    request = schema.FactsRequest(job=stage.job(env={"GLOO_SOCKET_IFNAME": "absent9"}))
    facts = stage.call(stage.push(None), "facts", request, schema.HostFacts)
    assert list(facts.network) == ["GLOO_SOCKET_IFNAME"]
