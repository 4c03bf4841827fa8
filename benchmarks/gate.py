"""How long the gate takes, beside what people do without one: all in one run, on one host, over a real SSH server.

    make bench                          3 rounds of everything, some minutes each
    python benchmarks/gate.py --rounds 5 --json bench.json
    python benchmarks/gate.py --quick   without the two that start an engine

Every number is of a fresh process, as a user starts it, from its start to its end (for a finding: to the line that
tells it). Each round measures everything, so that a busy machine is busy for all; what is shown is the median, with the
range beside it.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from processors import counted
from rich.console import Console
from rich.table import Table

from local import folders

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).resolve().parent.parent
SCRIPTS = Path(__file__).resolve().parent / "scripts"
REFUSED = 3

STORY, AGAIN, BARE = "the story's way", "the story's way, again", "bare tiny run"
FIRST, FIRST_ANEW = "first finding", "first finding, sources to be fetched"
COLD, WARM = "full cold gate", "warm gate"
WHAT = {
    STORY: "ssh HOST python -c 'import …; print(inspect.signature(…))', where nothing is compiled yet",
    AGAIN: "the same once Python has compiled what it imports",
    BARE: "ssh HOST: engine load and one batch on the demo's tiny model, patched, no gate",
    FIRST: "fab preflight --no-patches --until static, to the first error",
    FIRST_ANEW: "the same where the laptop has no sources of the host yet",
    COLD: "fab preflight --fresh, all levels with the rehearsal",
    WARM: "fab preflight, nothing changed",
}
# what, in relation to what, at most
TARGETS = ((FIRST, STORY, 0.15), (FIRST_ANEW, STORY, 0.15), (WARM, STORY, 0.05), (COLD, BARE, 1.15))
BESIDE = {STORY: AGAIN}  # what is told beside the target, without one


@dataclass
class Bench:
    """A demo host of our own, whose memory may be wiped, and what was measured on it."""

    root: Path
    used: Callable[[], float | None] = lambda: None
    seconds: dict[str, list[float]] = field(default_factory=lambda: {name: [] for name in WHAT})
    processors: dict[str, list[float]] = field(default_factory=lambda: {name: [] for name in WHAT})

    @property
    def environment(self) -> dict[str, str]:
        """Give the environment of every process that is measured."""
        return {**os.environ, "PRUDENT_GATE_CACHE": str(self.root), "PRUDENT_GATE_STATE": str(self.root / "state")}

    def fab(self, *words: str, code: int = 0, until: str | None = None) -> float:
        """Run `fab` as a user does; gives the seconds to its end, or to the first line with a text in it."""
        program = Path(sys.executable).with_name("fab")
        return self._run([str(program), *words], code=code, until=until)

    def ssh(self, script: str, *arguments: str) -> float:
        """Send a script to the stack's Python on the host over plain ssh; gives the seconds to its end."""
        python = self.root / "stack-cpu" / "bin" / "python"
        source = (SCRIPTS / script).read_text(encoding="utf-8")
        words = ["ssh", "-F", str(self.root / "demo" / "ssh_config"), "prudent-gate-demo"]
        return self._run([*words, str(python), "-B", "-", *arguments], given=source)

    def round(self, bundle: str, *, quick: bool = False) -> None:
        """Measure everything once; quickly, without what starts an engine."""
        workdir = self.root / "demo" / "workdir"
        refused = ("preflight", "--no-patches", "--until", "static")
        compiled = workdir / "story-pycache"
        shutil.rmtree(compiled, ignore_errors=True)
        self._measure(STORY, lambda: self.ssh("story.py", str(compiled)))
        self._measure(AGAIN, lambda: self.ssh("story.py", str(compiled)))
        shutil.rmtree(self.root / "surfaces", ignore_errors=True)
        self._measure(FIRST_ANEW, lambda: self.fab(*refused, code=REFUSED, until="error["))
        self._measure(FIRST, lambda: self.fab(*refused, code=REFUSED, until="error["))
        if not quick:
            self._measure(BARE, lambda: self.ssh("bare.py", str(workdir / "bundles" / bundle)))
            self._measure(COLD, lambda: self.fab("preflight", "--fresh"))
        self._measure(WARM, lambda: self.fab("preflight", until="pass (remembered)"))

    def bundle(self) -> str:
        """Go through the gate once, uncounted, which leaves everything in place; gives the bundle that passed."""
        report = self.root / "report.json"
        self.fab("preflight", "--report", str(report))
        (host,) = json.loads(report.read_text(encoding="utf-8"))["hosts"].values()
        return str(host["bundle"])

    def _measure(self, what: str, run: Callable[[], float]) -> None:
        before = self.used()
        seconds = run()
        after = self.used()
        self.seconds[what].append(round(seconds, 3))
        taken = None if before is None or after is None else round(after - before, 2)
        if taken is not None:
            self.processors[what].append(taken)
        sys.stderr.write(f"{what}: {seconds:.2f} s" + ("" if taken is None else f", {taken:.2f} of a processor") + "\n")

    def _run(self, words: list[str], *, code: int = 0, until: str | None = None, given: str = "") -> float:
        began, seen, said = time.monotonic(), None, []
        with subprocess.Popen(
            words,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=ROOT,
            env=self.environment,
        ) as process:
            if process.stdin is None or process.stdout is None:
                raise RuntimeError("no pipes")
            process.stdin.write(given)
            process.stdin.close()
            for line in process.stdout:
                said.append(line)
                if until is not None and seen is None and until in line:
                    seen = time.monotonic()
        ended = time.monotonic()
        if process.returncode != code or (until is not None and seen is None):
            raise SystemExit(f"{' '.join(words[:4])} ended with {process.returncode}:\n{''.join(said)[-4000:]}")
        # What is waited for in a whole run only proves that it was the run that is meant.
        return (ended if code == 0 or seen is None else seen) - began


def document(bench: Bench) -> dict[str, object]:
    """Give the results as JSON has them."""
    medians = {name: statistics.median(found) for name, found in bench.seconds.items() if found}
    return {
        "schema": 1,
        "cpus": os.cpu_count(),
        "load": os.getloadavg()[0],
        "seconds": bench.seconds,
        "median": medians,
        "processors": {name: statistics.median(found) for name, found in bench.processors.items() if found},
        "targets": [
            {
                "what": what,
                "of": of,
                "most": most,
                "ratio": round(medians[what] / medians[of], 4),
                "holds": medians[what] <= most * medians[of],
                "beside": {b: round(medians[what] / medians[b], 4) for b in (BESIDE.get(of),) if b in medians},
            }
            for what, of, most in TARGETS
            if what in medians and of in medians
        ],
    }


def show(console: Console, bench: Bench) -> None:
    """Print the table of what was measured and of the targets."""
    told = document(bench)
    table = Table(box=None, padding=(0, 2, 0, 0))
    for name in ("", "median", "range", "processors"):
        table.add_column(name, justify="right" if name else "left")
    table.add_column("target")
    table.add_column("")
    targets = {entry["what"]: entry for entry in told["targets"]}  # type: ignore[attr-defined]
    for name, found in bench.seconds.items():
        if not found:
            continue
        aim, verdict = "", ""
        if entry := targets.get(name):
            beside = "".join(f" ({ratio:.3f} × {of})" for of, ratio in entry["beside"].items())
            aim = f"{entry['ratio']:.3f} × {entry['of']}, at most {entry['most']}{beside}"
            verdict = "[green]holds[/]" if entry["holds"] else "[red]missed[/]"
        spread = f"{min(found):.2f} to {max(found):.2f}"
        busy = bench.processors[name]
        took = f"{statistics.median(busy):.2f} s" if busy else ""
        table.add_row(name, f"{statistics.median(found):.2f} s", spread, took, aim, verdict)
    console.print(table)
    for name, what in WHAT.items():
        console.print(f"{name}: {what}", style="dim", markup=False, soft_wrap=True)


def main() -> None:
    """Measure, show, and write the JSON that was asked for."""
    parser = argparse.ArgumentParser(description="Measure the gate beside the ways without one.")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", metavar="FILE", help="write the numbers there too (- is standard output)")
    parser.add_argument("--quick", action="store_true", help="leave out the bare tiny run and the full cold gate")
    options = parser.parse_args()
    stack = folders.cache() / "stack-cpu"
    if not stack.exists():
        raise SystemExit("the CPU stack is not installed: make stack")
    with counted() as used:
        _measured(Bench(folders.cache() / "bench", used), stack, options)


def _measured(bench: Bench, stack: Path, options: argparse.Namespace) -> None:
    """Bring the host up, measure the rounds, show them."""
    bench.root.mkdir(mode=0o700, exist_ok=True)
    link = bench.root / "stack-cpu"
    link.unlink(missing_ok=True)
    link.symlink_to(stack.resolve())
    bench.fab("demo.up")
    try:
        bundle = bench.bundle()
        for _ in range(max(1, options.rounds)):
            bench.round(bundle, quick=options.quick)
    finally:
        bench.fab("demo.down")
    text = json.dumps(document(bench), indent=2) + "\n"
    if options.json == "-":
        sys.stdout.write(text)
    elif options.json:
        Path(options.json).write_text(text, encoding="utf-8")
    show(Console(stderr=options.json == "-"), bench)


if __name__ == "__main__":
    main()
