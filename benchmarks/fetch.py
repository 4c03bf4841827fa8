"""How long `fab fetch --samples` takes, beside `scp -r` and `rsync -a`: the same files, the same sshd, in one run.

    python benchmarks/fetch.py                      3 rounds on the loopback, and over a line of 30 ms
    python benchmarks/fetch.py --rounds 5 --delay 50 --json fetch.json

Every number is of a fresh process, from its start to its end. scp and rsync copy and check nothing; `fab fetch` reads
the manifest, looks at the room, syncs every file and holds it against its SHA-256. What is shown is the median.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import os
import queue
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

from local.demo import keys, sshd
from local.demo.place import ALIAS, Place
from remote.paths import Output
from remote.results import manifest
from remote.schema import ManifestEntry

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parent.parent
KINDS = {"few large": (6, 64 << 20), "many small": (2000, 20 << 10), "some small": (300, 20 << 10)}  # files, bytes each
NEAR, FAR = ("few large", "many small"), ("few large", "some small")  # scp takes four round trips for each file
FAB, BARE, SCP, RSYNC = "fab fetch", "fab runs", "scp -r", "rsync -a"  # `fab runs`: what fab itself and connecting take
READY = 15.0


@dataclass
class Bench:
    """An sshd of our own with output folders behind it, and what was measured."""

    root: Path
    place: Place
    port: int
    seconds: dict[str, list[float]] = field(default_factory=dict)

    def fill(self) -> None:
        """Write the output folders, each with its manifest."""
        for kind, (count, size) in KINDS.items():
            output = Output(PurePosixPath(self.folder(kind)))
            Path(output.root).mkdir()
            for index in range(count):
                data = os.urandom(size)
                Path(output.sample(index)).write_bytes(data)
                digest = hashlib.sha256(data).hexdigest()
                entry = ManifestEntry(
                    index=index, file=output.sample(index).name, tokens=1, shape=(1, 1, 1), dtype="bfloat16",
                    size=size, sha256=digest, tokens_sha256=digest,
                )  # fmt: skip
                manifest.record(output, entry)

    def warm_up(self) -> None:
        """Bring the payload to the host, as the job before has done."""
        self._timed(self._words(BARE, NEAR[0], self.root), NEAR[0])

    def folder(self, kind: str) -> Path:
        """Give where the files of a kind are on the host."""
        return self.root / kind.replace(" ", "-")

    def round(self, line: str, port: int, kinds: tuple[str, ...]) -> None:
        """Measure everything once, over the port given."""
        keys.prepare(self.place, port)
        for kind in kinds:
            for how in (BARE, SCP, RSYNC, FAB):
                if how == RSYNC and shutil.which("rsync") is None:
                    continue
                with tempfile.TemporaryDirectory(dir=self.root) as to:
                    took = self._timed(self._words(how, kind, Path(to)), kind)
                    if how != BARE:
                        self._whole(how, kind, Path(to))
                self.seconds.setdefault(f"{line}, {kind}: {how}", []).append(round(took, 3))
                sys.stderr.write(f"{line}, {kind}: {how}: {took:.2f} s\n")

    def _words(self, how: str, kind: str, to: Path) -> list[str]:
        config, source = str(self.place.ssh_config), f"{ALIAS}:{self.folder(kind)}/"
        if how == SCP:
            return ["scp", "-q", "-r", "-F", config, source, str(to)]
        if how == RSYNC:
            return ["rsync", "-a", "-e", f"ssh -F {config}", source, str(to)]
        if how == BARE:
            return [str(Path(sys.executable).with_name("fab")), "runs"]
        return [str(Path(sys.executable).with_name("fab")), "fetch", "--samples", "--to", str(to)]

    def _timed(self, words: list[str], kind: str) -> float:
        inventory = self.root / "inventory.toml"
        inventory.write_text(
            f'[defaults]\npython = "{sys.executable}"\nworkdir = "{self.root}/workdir"\n'
            f'ssh_config = "{self.place.ssh_config}"\n[hosts.bench]\nssh = "{ALIAS}"\n'
            f'[jobs.j]\nengine = "command"\ndevice = "cpu"\ncommand = ["true"]\noutput = "{self.folder(kind)}"\n'
        )
        environment = {**os.environ, "FABRIC_INVENTORY": str(inventory), "PRUDENT_GATE_STATE": str(self.root / "state")}
        began = time.monotonic()
        subprocess.run(
            words, cwd=ROOT, env=environment, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        return time.monotonic() - began

    def _whole(self, how: str, kind: str, to: Path) -> None:
        """See that all of it came: a copy that is not whole is not fast."""
        count, size = KINDS[kind]
        found = [path.stat().st_size for path in to.rglob("data_*.pt")]
        if found != [size] * count:
            raise SystemExit(f"{how} of {kind}: {len(found)} of {count} files came")


class Line:
    """A TCP line that delays every byte by half of `seconds` each way, and bounds nothing else."""

    def __init__(self, port: int, seconds: float) -> None:
        self._target, self._half = port, seconds / 2
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        """Take no more connections."""
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                far = socket.create_connection(("127.0.0.1", self._target))
                for sock in (near, far):
                    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                for source, sink in ((near, far), (far, near)):
                    held: queue.Queue[tuple[float, bytes]] = queue.Queue()
                    threading.Thread(target=self._take, args=(source, held), daemon=True).start()
                    threading.Thread(target=self._give, args=(sink, held), daemon=True).start()

    def _take(self, source: socket.socket, held: queue.Queue[tuple[float, bytes]]) -> None:
        data = b"-"
        while data:
            try:
                data = source.recv(1 << 18)
            except OSError:
                data = b""
            held.put((time.monotonic() + self._half, data))

    def _give(self, sink: socket.socket, held: queue.Queue[tuple[float, bytes]]) -> None:
        with contextlib.suppress(OSError):
            while True:
                due, data = held.get()
                time.sleep(max(0.0, due - time.monotonic()))
                if not data:
                    sink.shutdown(socket.SHUT_WR)
                    return
                sink.sendall(data)


@contextlib.contextmanager
def serving(root: Path) -> Iterator[Bench]:
    """Run an sshd of our own while the block lasts."""
    if sshd.find() is None:
        raise SystemExit("no sshd is installed")
    place = Place(root / "server")
    place.root.mkdir()
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = int(probe.getsockname()[1])
    os.environ["PRUDENT_GATE_STATE"] = str(root / "state")
    keys.prepare(place, port)
    with subprocess.Popen(sshd.words(place, port, embedded=False)) as server:
        try:
            _wait(port)
            yield Bench(root, place, port)
        finally:
            server.terminate()


def _wait(port: int) -> None:
    until = time.monotonic() + READY
    while True:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=READY) as sock:
            if sock.recv(4) == b"SSH-":
                return
        if time.monotonic() > until:
            raise SystemExit("the sshd does not answer")
        time.sleep(0.05)


def document(bench: Bench) -> dict[str, object]:
    """Give the results as JSON has them; a ratio is to the time that `scp -r` took."""
    medians = {name: statistics.median(found) for name, found in bench.seconds.items()}
    ratios = {name: round(found / medians[f"{name.rpartition(':')[0]}: {SCP}"], 3) for name, found in medians.items()}
    return {
        "schema": 1, "cpus": os.cpu_count(), "load": os.getloadavg()[0], "seconds": bench.seconds, "median": medians,
        "of_scp": ratios,
    }  # fmt: skip


def show(bench: Bench) -> None:
    """Print the medians, and each in relation to scp."""
    told = document(bench)
    table = Table("what", "seconds", "range", f"× {SCP}")
    for name, found in bench.seconds.items():
        ratio = told["of_scp"][name]  # type: ignore[index]
        table.add_row(name, f"{statistics.median(found):.2f}", f"{min(found):.2f} to {max(found):.2f}", f"{ratio:.2f}")
    Console().print(table)


def main() -> None:
    """Measure as asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--delay", type=float, default=30.0, help="of the far line, round trip in milliseconds")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, serving(Path(folder)) as bench:
        bench.fill()
        far = Line(bench.port, options.delay / 1000)
        bench.warm_up()
        for _ in range(options.rounds):
            bench.round("loopback", bench.port, NEAR)
            bench.round(f"{options.delay:g} ms", far.port, FAR)
        far.close()
        show(bench)
        if options.json:
            options.json.write_text(json.dumps(document(bench), indent=2) + "\n")


if __name__ == "__main__":
    main()
