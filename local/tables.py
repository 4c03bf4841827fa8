"""Tables for people: the inventory, the runs, the patch series. Results, so they go to standard output."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any

from rich import box
from rich.markup import escape
from rich.table import Table

from local import cost, guard, history
from local.patches import known_as
from local.summary import duration, of_all
from local.text import clean

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from local.patches import Patch
    from local.session import Session
    from remote.schema import HostFacts, RunStatus

PACKAGES = ("vllm", "speculators", "torch", "transformers")
STYLES = {
    "applies": "green", "upstream": "cyan", "broken": "red", "missing": "red", "not meant": "dim",
    "done": "green", "failed": "red", "lost": "red", "stopped": "yellow", "unknown": "yellow",
}  # fmt: skip


def show(sessions: Sequence[Session], table: Table) -> None:
    """Print a table on standard output, as wide as it needs where that is no terminal."""
    secrets = {secret for session in sessions for secret in session.secrets.values()}
    console = guard.console(sys.stdout, secrets)
    if not console.is_terminal:
        console = guard.console(sys.stdout, secrets, width=max(200, 40 * len(sessions)))
    console.print(table)


def plain(*titles: str, right: tuple[str, ...] = ()) -> Table:
    """Give an empty table in our form; `right` are the titles of numbers."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for title in titles:
        table.add_column(title, justify="right" if title in right else "left", overflow="fold")
    return table


def hosts(sessions: Sequence[Session]) -> Table:
    """Give the inventory as a table."""
    table = plain("host", "address", "reached", "host key", "GPUs", "driver", "python", "packages", "runs")
    for session in sessions:
        ssh = session.target.ssh
        address = f"{ssh.user + '@' if ssh.user else ''}{ssh.address}{f':{ssh.port}' if ssh.port else ''}"
        seen = session.values.get("hosts")
        if seen is None:
            word = type(session.error).__name__ if session.error else "interrupted"
            table.add_row(session.name, escape(address), f"[red]{word}[/]", *[""] * 6)
            continue
        table.add_row(
            session.name,
            escape(address),
            "[green]yes[/]",
            "[yellow]new, pinned now[/]" if any("pinned" in notice for notice in session.notices) else "known",
            _gpus(seen.facts, session.target.gpus),
            escape(clean(seen.facts.gpu.gpus[0].driver)) if seen.facts.gpu.gpus else "–",
            escape(clean(f"{seen.facts.python.version} {seen.facts.python.executable}")),
            escape(clean(_packages(seen.facts))),
            _runs_in_short(seen.runs),
        )
    return table


def _gpus(facts: HostFacts, promised: int | None) -> str:
    found = facts.gpu.gpus
    text = f"{len(found)} × {escape(clean(found[0].name))}" if found else "none"
    if promised is not None and promised != len(found):
        return f"[red]{text}[/] (the inventory says {promised})"
    return text


def _packages(facts: HostFacts) -> str:
    found = known_as(facts.distributions)
    return ", ".join(f"{name} {found[name]}" for name in PACKAGES if name in found) or "–"


def _runs_in_short(found: Sequence[RunStatus]) -> str:
    if not found:
        return "none"
    latest = found[0]
    return f"{len(found)}, latest {_phase(latest.phase)} ({_age(latest.last_seen)})"


def runs(rows: Sequence[tuple[str, RunStatus]], prices: Mapping[str, float | None]) -> Table:
    """Give runs as a table, each with its host; `prices` are dollars an hour."""
    titles = ["host", "run", "job", "phase", "samples", "attempt", "started", "last seen", "took", "cost"]
    optional = {
        "cost": any(prices.get(name) is not None for name, _ in rows),
        "shard": any(run.shard for _, run in rows),
    }
    titles = [title for title in [*titles, "shard", "output", "cause"] if optional.get(title, True)]
    table = plain(*titles, right=("samples", "attempt", "took", "cost"))
    for name, run in rows:
        cells = _run(name, run, prices.get(name))
        table.add_row(*(cells[title] for title in titles))
    return table


def _run(name: str, run: RunStatus, price: float | None) -> dict[str, str]:
    samples, seconds = run.samples, history.seconds(run, now=time.time())
    failed = f" ([red]{samples.failed} failed[/])" if samples.failed else ""
    return {
        "host": name,
        "run": escape(run.run),
        "job": escape(clean(run.job or "")),
        "phase": _phase(run.phase),
        "samples": f"{of_all(samples.done, samples.total)}{failed}",
        "attempt": str(run.attempt),
        "started": _age(run.started),
        "last seen": _age(run.last_seen),
        "took": duration(seconds) if seconds is not None else "–",
        "cost": cost.money(cost.spent(price, seconds)),
        "shard": escape(clean(run.shard or "")),
        "output": escape(clean(run.output or "")),
        "cause": escape(clean(run.cause or "")),
    }


def patches(rows: Sequence[tuple[Patch, Mapping[str, str]]], names: Sequence[str]) -> Table:
    """Give the series as a table, with a column for each host."""
    table = plain("number", "title", "applies to", *names)
    for patch, on in rows:
        cells: list[Any] = [f"[{STYLES.get(on[name], '')}]{on[name]}[/]" if on[name] else "" for name in names]
        table.add_row(patch.number, escape(patch.title), escape(patch.meant_for), *cells)
    return table


def matrix(package: str, rows: Sequence[tuple[str, ...]]) -> Table:
    """Give what the static level says of many releases as a table."""
    table = plain(package, "as it is", "with patches", "patches", "the first thing in the way")
    for row in rows:
        table.add_row(*(escape(clean(cell)) for cell in row))
    return table


def _phase(phase: str) -> str:
    style = STYLES.get(phase, "bold")
    return f"[{style}]{phase}[/]"


def _age(then: float | None) -> str:
    return f"{duration(max(0.0, time.time() - then))} ago" if then else "–"
