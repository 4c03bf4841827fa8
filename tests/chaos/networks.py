"""A host and a laptop in network namespaces of their own, on a cable of ours: addresses can change, names move.

The laptop has its own `/etc/hosts`, too. Nothing outside these namespaces is touched, and they end with their holders.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests import hostpython, laptop
from tests.running import PATIENCE, until
from tests.ssh import sshd
from tests.ssh.servers import USER, make_key

if TYPE_CHECKING:
    from collections.abc import Iterator

REPO = Path(__file__).parents[2]
FAB = str(Path(sys.executable).parent / "fab")
TOOLS = ("ip", "unshare", "nsenter", "mount")
NAME = "gpu.test"
PORT = 2022
FIRST, SECOND = "192.0.2.1", "192.0.2.77"  # of the host
HERE, THERE = "192.0.2.10", "192.0.2.20"  # of the laptop
MASK = 24


def why_not() -> str | None:
    """Say why no namespaces can be made here, None when they can."""
    if missing := [tool for tool in TOOLS if shutil.which(tool) is None]:
        return f"not installed: {', '.join(missing)}"
    if sshd.program() is None:
        return "not installed: sshd"
    done = subprocess.run(["unshare", "--net", "--mount", "true"], capture_output=True, text=True, check=False)
    return None if done.returncode == 0 else f"namespaces are not allowed: {done.stderr.strip()}"


needs_namespaces = pytest.mark.skipif(bool(reason := why_not()), reason=f"no network of our own: {reason}")


@dataclass
class Network:
    """Both ends of the cable; `hosts` is the laptop's /etc/hosts."""

    host: int
    laptop: int
    hosts: Path
    folder: Path

    def at_host(self, *words: str) -> None:
        """Run a command in the host's network."""
        subprocess.run(["nsenter", "-t", str(self.host), "-n", *words], check=True, capture_output=True)

    def at_laptop(self, *words: str) -> None:
        """Run a command in the laptop's network."""
        subprocess.run(["nsenter", "-t", str(self.laptop), "-n", *words], check=True, capture_output=True)

    def move_laptop(self) -> None:
        """Give the laptop another address: its connections stay, and nothing comes back on them any more."""
        self.at_laptop("ip", "address", "add", f"{THERE}/{MASK}", "dev", "laptop")
        self.at_laptop("ip", "address", "delete", f"{HERE}/{MASK}", "dev", "laptop")
        self.at_laptop("ip", "address", "replace", f"{THERE}/{MASK}", "dev", "laptop")

    def move_host(self) -> None:
        """Give the host another address, and its name, too."""
        self.at_host("ip", "address", "add", f"{SECOND}/{MASK}", "dev", "host")
        self.at_host("ip", "address", "delete", f"{FIRST}/{MASK}", "dev", "host")
        self.at_host("ip", "address", "replace", f"{SECOND}/{MASK}", "dev", "host")
        self.name(SECOND)

    def name(self, address: str) -> None:
        """Let the host's name mean this address, on the laptop."""
        self.hosts.write_text(f"127.0.0.1 localhost\n{address} {NAME}\n")


@contextlib.contextmanager
def cable(folder: Path) -> Iterator[Network]:
    """Make the namespaces, connect them, and run an sshd at the host's end."""
    hosts = folder / "hosts"
    hosts.touch()
    with contextlib.ExitStack() as stack:
        host = _holder(stack, "--net")
        laptop = _holder(stack, "--net", "--mount", first=f"mount --bind '{hosts}' /etc/hosts")
        made = Network(host, laptop, hosts, folder)
        made.name(FIRST)
        made.at_host("ip", "link", "set", "lo", "up")
        made.at_laptop("ip", "link", "set", "lo", "up")
        made.at_host("ip", "link", "add", "host", "type", "veth", "peer", "name", "laptop", "netns", str(laptop))
        made.at_host("ip", "address", "add", f"{FIRST}/{MASK}", "dev", "host")
        made.at_host("ip", "link", "set", "host", "up")
        made.at_laptop("ip", "address", "add", f"{HERE}/{MASK}", "dev", "laptop")
        made.at_laptop("ip", "link", "set", "laptop", "up")
        stack.enter_context(_server(made))
        yield made


def _holder(stack: contextlib.ExitStack, *kinds: str, first: str = "true") -> int:
    """Start a process that does nothing but be in namespaces of its own; gives its pid."""
    words = ["unshare", *kinds, "--", "sh", "-c", f"{first} && echo here && exec sleep 600"]
    process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    stack.callback(process.wait)
    stack.callback(process.kill)
    assert process.stdout is not None
    stack.callback(process.stdout.close)
    assert process.stdout.readline() == b"here\n"
    return process.pid


@contextlib.contextmanager
def _server(network: Network) -> Iterator[None]:
    folder = network.folder
    Path("/run/sshd").mkdir(exist_ok=True)
    (folder / "home").mkdir()
    for name in ("host_key", "user_key"):
        make_key(folder / name)
    shutil.copy(folder / "user_key.pub", folder / "authorized_keys")
    settings = sshd.CONFIG.replace("ListenAddress 127.0.0.1", "ListenAddress 0.0.0.0")
    (folder / "config").write_text(settings.format(port=PORT, folder=folder, home=folder / "home", more=""))
    words = ["nsenter", "-t", str(network.host), "-n", str(sshd.program()), "-D", "-e", "-f", str(folder / "config")]
    with (folder / "sshd.log").open("ab") as log:
        process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stderr=log)
    try:
        until(lambda: "Server listening" in (folder / "sshd.log").read_text(), "the server")
        yield
    finally:
        sshd.stop(process)


@dataclass
class Fab:
    """A `fab` on the laptop: what it says comes with the time at which it was said."""

    process: subprocess.Popen[bytes]
    said: Path
    seen: list[str] = field(default_factory=list)

    def text(self) -> str:
        return self.said.read_text(errors="replace")

    def until(self, text: str, patience: float = PATIENCE) -> float:
        """Wait until it has said a text; gives the seconds that took."""
        began = time.monotonic()
        while text not in self.text():
            assert self.process.poll() is None, f"ended with {self.process.returncode}: {self.text()[-2000:]}"
            assert time.monotonic() - began < patience, (
                f"{text!r} not said within {patience:g} s: {self.text()[-2000:]}"
            )
            time.sleep(0.05)
        return time.monotonic() - began

    def end(self, patience: float = 4 * PATIENCE) -> int:
        """Wait for its end; gives its exit code."""
        return self.process.wait(patience)


def write_inventory(folder: Path, *, address: str, port: int, identity: Path, script: str) -> None:
    """Write the laptop's inventory: one host, one job that is a script."""
    (folder / "inventory.toml").write_text(
        f"""
[defaults]
user = "{USER}"
ssh_config = "none"
python = "{hostpython.python()}"
workdir = "{folder}/workdir"
[hosts.gpu]
address = "{address}"
port = {port}
identity_file = "{identity}"
[jobs.script]
engine = "command"
device = "cpu"
command = ["sh", "-c", {json.dumps(script)}]
output = "{folder}/output"
retry = {{ transient = 0 }}
""",
        encoding="utf-8",
    )


@contextlib.contextmanager
def fab(folder: Path, *words: str, prefix: tuple[str, ...] = ()) -> Iterator[Fab]:
    """Run `fab` with the folder's inventory, its words in a file; it is ended with the block."""
    environment = laptop.environment(folder, COLUMNS="200")
    said = folder / "said"
    with said.open("ab") as out:
        process = subprocess.Popen(
            [*prefix, FAB, *words], cwd=REPO, env=environment, stdin=subprocess.DEVNULL, stdout=out, stderr=out
        )
    try:
        yield Fab(process, said)
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()
