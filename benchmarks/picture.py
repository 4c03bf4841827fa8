"""Take the picture of many hosts that the README shows: `python benchmarks/picture.py docs/hosts.svg`.

Real from end to end: an sshd, a home and an output folder per host on the loopback, the real vLLM and speculators on
the CPU, the tiny model of the demo. Four engines on one machine are slow; what is shown is what they told, but for the
lines of single hosts (their name before a bar), which are left out.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from rich.console import Console
from rich.text import Text

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from local import folders  # noqa: E402 - the checkout is on the path from here on
from tests.ssh import nodes  # noqa: E402

FAB = str(Path(sys.executable).parent / "fab")
WIDTH = 118
LIMIT = 1800.0
SAMPLES = 480


def main() -> None:
    """Run a job on some hosts and draw what the laptop saw."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("svg", type=Path)
    parser.add_argument("--hosts", type=int, default=4)
    told = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, nodes.running(Path(folder) / "hosts", told.hosts) as members:
        shown = Session(Path(folder), members).play()
    told.svg.write_text(picture(shown), encoding="utf-8")


class Session:
    """The laptop: an inventory of the hosts, and what was typed and seen."""

    def __init__(self, folder: Path, members: list[nodes.Member]) -> None:
        self.folder = folder
        self.shown: list[str] = []
        python = folders.cache() / "stack-cpu" / "bin" / "python"
        self._material(python)
        hosts = "".join(
            replace(member, name=f"gpu{number:02d}").entry(workdir=f"{folder}/{member.name}", python=str(python))
            for number, member in enumerate(members, 1)
        )
        (folder / "inventory.toml").write_text(
            f'[defaults]\nssh_config = "none"\nusd_per_hour = 36.0\n{hosts}\n[jobs.tiny]\nengine = "speculators"\n'
            f'model = "{folder}/material/model"\ndataset = "{folder}/material/train.jsonl"\n'
            'output = "~/hidden_states"\nlayers = [2, 4, 5, 7]\nmax_model_len = 512\nbatch_size = 4\ndevice = "cpu"\n'
            "env = { VLLM_CPU_KVCACHE_SPACE = 1, OMP_NUM_THREADS = 1 }\n"
        )
        self.environment = {
            **os.environ,
            "FABRIC_INVENTORY": str(folder / "inventory.toml"),
            "PRUDENT_GATE_STATE": str(folder / "state"),
            "COLUMNS": str(WIDTH),
            "FORCE_COLOR": "1",
        }

    def play(self) -> str:
        """Do what a user would do."""
        self._run("preflight", shown=False)
        self._run("extract", "--dry-run")
        self._run("extract", "--detach", shown=False)
        self._until(lambda hosts: all(host["phase"] == "extracting" for host in hosts), "extracting")
        self._until(lambda hosts: sum(host["samples"]["done"] for host in hosts) > SAMPLES // 3, "a third of it")
        self._run("monitor", "--once")
        self._until(lambda hosts: all(host["phase"] == "done" for host in hosts), "the end")
        self._run("verify")
        return "\n".join(self.shown)

    def _run(self, *words: str, shown: bool = True) -> None:
        done = subprocess.run(
            [FAB, *words], cwd=ROOT, env=self.environment, text=True, timeout=LIMIT, check=False,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        if done.returncode:
            raise SystemExit(f"fab {' '.join(words)} ended with {done.returncode}:\n{done.stdout}")
        if shown:
            told = [line.rstrip() for line in done.stdout.replace(str(self.folder), "").splitlines() if "│" not in line]
            self.shown.append("\n".join([f"\x1b[1m$ fab {' '.join(words)}\x1b[0m", *told, ""]))

    def _until(self, well: object, what: str) -> None:
        end = time.monotonic() + LIMIT
        while time.monotonic() < end:
            said = subprocess.run(
                [FAB, "status", "--json"], cwd=ROOT, env=self.environment, capture_output=True, text=True, check=True
            )
            hosts = list(json.loads(said.stdout)["hosts"].values())
            if well(hosts):  # type: ignore[operator]
                return
            if any(host["phase"] in {"failed", "lost"} for host in hosts):
                break
        raise SystemExit(f"{what} did not come: {said.stdout}")

    def _material(self, python: Path) -> None:
        words = [str(python), "-m", "remote", "tiny-model", f"{self.folder}/material/model"]
        words += ["--dataset", f"{self.folder}/material/train.jsonl", "--conversations", str(SAMPLES)]
        (self.folder / "material").mkdir()
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONPYCACHEPREFIX": str(self.folder / "pycache")}
        subprocess.run([*words, "--max-model-len", "512"], env=environment, check=True, capture_output=True)


def picture(said: str) -> str:
    """Give the picture; it names no font of a far server."""
    console = Console(record=True, width=WIDTH, file=Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115 - to the end
    console.print(Text.from_ansi(said))
    return re.sub(r"@font-face\s*{.*?}|<!--.*?-->", "", console.export_svg(title="four hosts"), flags=re.DOTALL)


if __name__ == "__main__":
    main()
