"""What the tests of `fab monitor` share: hosts with an sshd and a workdir each, and a laptop that watches them."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import subprocess
import sys
import threading
from pathlib import Path
from queue import Empty, Queue
from typing import TYPE_CHECKING, Any

from tests import hostpython, laptop
from tests.running import Lab
from tests.ssh import sshd
from tests.ssh.servers import dead_port

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.ssh.servers import Server

ROOT = Path(__file__).resolve().parents[2]
FAB = str(Path(sys.executable).parent / "fab")
LIMIT = 90.0
ROW = "NVIDIA B200, 97, 161243, 183359, 61, Disabled"


@dataclasses.dataclass
class Box:
    """One host: its server, and a lab that starts runs in its workdir without any link."""

    server: Server
    lab: Lab

    @property
    def commands(self) -> int:
        """Count the commands that were ever started over SSH."""
        return (self.server.folder / "log").read_text(errors="replace").count("Starting session: command")

    @property
    def logins(self) -> int:
        return (self.server.folder / "log").read_text(errors="replace").count("Accepted publickey")

    def smi(self, body: str) -> None:
        """Put a fake nvidia-smi first on the PATH of what comes by SSH."""
        folder = self.server.home / "bin"
        folder.mkdir(exist_ok=True)
        (folder / "nvidia-smi").write_text(f"#!/bin/sh\n{body}\n")
        (folder / "nvidia-smi").chmod(0o755)
        (self.server.home / ".bashrc").write_text(f"export PATH={folder}:$PATH\n")


@dataclasses.dataclass
class Site:
    """The hosts by name, and the laptop; `places` are where the laptop finds them."""

    folder: Path
    boxes: dict[str, Box]
    places: dict[str, int]

    @property
    def inventory(self) -> Path:
        return self.folder / "inventory.toml"

    def write(self) -> None:
        """Write the inventory, whole at once."""
        tables = "".join(
            f'[hosts.{name}]\naddress = "127.0.0.1"\nport = {port}\nusd_per_hour = 36.0\n'
            f'workdir = "{self._workdir(name)}"\nidentity_file = "{self._identity(name)}"\n'
            for name, port in self.places.items()
        )
        text = f"""
[defaults]
user = "{next(iter(self.boxes.values())).server.user}"
ssh_config = "none"
python = "{hostpython.python()}"
secret_env = ["TEST_TOKEN"]
connect_timeout = 5
{tables}
[jobs.script]
engine = "command"
device = "cpu"
command = ["true"]
output = "~/out"
"""
        new = self.folder / "inventory.new"
        new.write_text(text, encoding="utf-8")
        new.replace(self.inventory)

    def environment(self) -> dict[str, str]:
        return laptop.environment(self.folder, TEST_TOKEN="hf_very_secret_value", TERM="xterm-256color")

    def fab(self, *words: str) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [FAB, *words], cwd=ROOT, env=self.environment(), capture_output=True, text=True, timeout=LIMIT, check=False
        )
        assert "Traceback" not in done.stderr
        return done

    def once(self) -> dict[str, Any]:
        done = self.fab("monitor", "--once", "--json")
        assert done.stdout.count("\n") == 1, done.stderr
        document: dict[str, Any] = json.loads(done.stdout)
        return document

    @contextlib.contextmanager
    def stream(self, *words: str) -> Iterator[Documents]:
        """Watch with --json while the block lasts."""
        process = subprocess.Popen(
            [FAB, "monitor", "--json", *words], cwd=ROOT, env=self.environment(), stdout=subprocess.PIPE, text=True
        )
        documents = Documents(process)
        try:
            yield documents
        finally:
            process.terminate()
            process.wait(LIMIT)
            documents.close()

    def _workdir(self, name: str) -> str:
        return self.boxes[name].lab.workdir if name in self.boxes else "/nowhere"

    def _identity(self, name: str) -> Path:
        box = self.boxes.get(name) or next(iter(self.boxes.values()))
        return box.server.identity


class Documents:
    """The documents of a stream as they come."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self._queue: Queue[dict[str, Any]] = Queue()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def next(self) -> dict[str, Any]:
        """Give the next one."""
        try:
            return self._queue.get(timeout=LIMIT)
        except Empty:
            raise AssertionError("no document came") from None

    def until(self, condition: Callable[[dict[str, Any]], Any], rounds: int = 60) -> dict[str, Any]:
        """Give the first for which the condition holds."""
        seen = []
        for _ in range(rounds):
            seen.append(self.next())
            if condition(seen[-1]):
                return seen[-1]
        raise AssertionError(f"not within {rounds} rounds, the last: {seen[-1]}")

    def close(self) -> None:
        self._reader.join()
        assert self.process.stdout is not None
        self.process.stdout.close()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._queue.put(json.loads(line))


@contextlib.contextmanager
def site(folder: Path, names: tuple[str, ...], *, dead: bool = False) -> Iterator[Site]:
    """Give hosts that run, and one that does not where `dead` says so; nothing of theirs runs on afterwards."""
    with contextlib.ExitStack() as stack:
        boxes = {}
        for name in names:
            (folder / name).mkdir()
            server = stack.enter_context(sshd.running(folder / name, more="LogLevel VERBOSE"))
            boxes[name] = Box(server, Lab(folder / name / "lab"))
            boxes[name].smi(f"echo '0, {ROW}'")
            stack.callback(boxes[name].lab.clean_up)
        places = {name: box.server.port for name, box in boxes.items()}
        made = Site(folder, boxes, places | ({"dead": dead_port()} if dead else {}))
        made.write()
        yield made
