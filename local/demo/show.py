"""`fab demo`: the whole main job on the loopback host, told as it happens; `demo.up`, `demo.down` for work by hand."""

from __future__ import annotations

import hashlib
import re
import shutil
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.markup import escape
from rich.panel import Panel
from rich.table import Table

import remote
from local import guard, inventory, render, runs, targets, telling
from local import report as reports
from local.demo import host, material
from local.demo.place import here, write
from local.errors import GateRefused, PrudentError, UsageError
from local.session import Session
from local.summary import duration, print_way_back, size
from local.tasks import extract, gate
from local.tasks.run import ENDED
from remote import wire
from remote.schema import Verdict

if TYPE_CHECKING:
    from rich.console import Console

    from local.demo.place import Place
    from local.screen import Screen

INVENTORY = Path(__file__).resolve().parent.parent.parent / "inventories" / "demo.toml"
WIDTH = 118  # of the picture


def up(screen: Screen, *, embedded: bool = False) -> None:
    """Start the loopback host and make what it needs."""
    place = here()
    server, fresh = host.up(place, embedded=embedded)
    kind = "an OpenSSH sshd of our own" if server.kind == "sshd" else "the embedded SSH server"
    said = "started" if fresh else "runs already"
    screen.console.print(f"host        {kind} on 127.0.0.1:{server.port} {said} (pid {server.pid})")
    made = material.ensure(place)
    screen.console.print(f"model       {escape(str(place.model))}{'' if made else ' (made before)'}", soft_wrap=True)
    screen.console.print(f"dataset     {escape(str(place.dataset))}", soft_wrap=True)
    screen.console.print(f"by hand     ssh -F {escape(str(place.ssh_config))} prudent-gate-demo", soft_wrap=True)


def down(screen: Screen) -> None:
    """End the loopback host; runs on it go on, as on any host."""
    ended = host.down(here())
    said = f"ended the SSH server (pid {ended.pid})" if ended else "no SSH server was running"
    screen.console.print(f"host        {said}")


def demo(screen: Screen, *, svg: str | None = None, fresh: bool = False) -> None:
    """Show the gate refusing the unpatched stack, passing the patched one, then extract and verify."""
    if svg:
        reports.writable(svg, "picture")
        screen.console = guard.console(
            screen.err, screen.secrets, record=True, width=WIDTH, force_terminal=True, force_interactive=False
        )
    console, place, began = screen.console, here(), time.monotonic()
    _title(console, "A host", "an SSH server with a key of its own, another Python, a tiny random Llama")
    up(screen)
    (target,) = targets.resolve(inventory.load(INVENTORY), "demo", None)
    session = Session(target, console, screen.for_host("demo", 0, 0, ())[1], alone=True)
    session.show_log = not svg
    try:
        _title(
            console, "The gate, without our patches", "speculators 0.3.0 on vLLM 0.16.0, as released: it must refuse"
        )
        _refused(session, place, fresh=fresh)
        _title(
            console, "The gate, with our patches", "the installed packages stay as they are: an overlay shadows them"
        )
        session.outcome = None
        gate.preflight(session, fresh=fresh)
        _title(console, "The run", "detached and supervised on the host; we only watch")
        _clear(session, place)
        extracting = time.monotonic()
        extract.extract(session)
    except KeyboardInterrupt:
        print_way_back(console, session.name, session.run)
        raise
    finally:
        session.let_go()
    _end(console, session, place, time.monotonic() - extracting, time.monotonic() - began)
    if svg:
        _picture(console, svg)


def _title(console: Console, title: str, why: str) -> None:
    console.print()
    console.rule(f"[bold]{title}[/]", align="left", style="dim")
    console.print(f"[dim]{why}[/]")


def _refused(session: Session, place: Place, *, fresh: bool) -> None:
    """Show the gate refusing; what it found is remembered for this stack and series, because it cannot change."""
    memory = place.root / f"refused-{_identity(place)}.json"
    if not fresh and (known := _remembered(memory)):
        session.console.print("[dim]as it was found before (again in earnest: fab demo --fresh)[/]")
        for check in known.checks:
            render.print_check(session.console, session.label, check)
        render.print_verdict(session.console, session.label, known)
        return
    try:
        gate.preflight(session, no_patches=True, fresh=fresh)
    except GateRefused:
        if session.outcome is not None:
            write(memory, wire.dumps(session.outcome.verdict))
        session.console.print("[green]as it should:[/] nothing was loaded, nothing was started")
        return
    raise PrudentError("the gate let the unpatched stack pass, which it must not", where="demo")


def _remembered(memory: Path) -> Verdict | None:
    try:
        return wire.loads(Verdict, memory.read_bytes())
    except (OSError, wire.WireError):
        return None


def _identity(place: Place) -> str:
    """Name the stack and the code that judges it."""
    digest = hashlib.sha256(str(place.stack_python.parent.parent.resolve()).encode())
    for file in sorted(Path(remote.__file__).parent.rglob("*.py")):
        digest.update(file.read_bytes())
    return digest.hexdigest()[:12]


def _clear(session: Session, place: Place) -> None:
    """Start from no outputs, so that the job is really done again; a run in progress is attached to instead."""
    found = runs.status(session.host, bundle=session.payload, limit=1)
    if found and found[0].phase not in ENDED:
        return
    if place.output.exists():
        shutil.rmtree(place.output)
        session.console.print(
            f"[dim]removed the outputs of last time from {escape(str(place.output))}[/]", soft_wrap=True
        )


def _end(console: Console, session: Session, place: Place, job: float, whole: float) -> None:
    answer: Any = session.values.get("verified")
    if answer is None:
        raise UsageError("nothing was verified", where="demo")
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    files = (
        f"each file's tokens with {place.dataset.name}; its shape, dtype and checksum with the manifest; "
        "every value finite, no layer all zero"
    )
    for name, said in (
        ("samples", f"{answer.valid} of {answer.total} valid, {answer.tokens:,} tokens, {size(answer.size)}"),
        ("hidden states", str(place.output)),
        ("compared", files),
        ("", f"before the run: {_rehearsed(session)}"),
        ("time", f"{duration(job)} for the job, {duration(whole)} for all of this"),
        ("look further", "fab status · fab logs · fab hosts · fab preflight --report -"),
        ("end the host", "fab demo.down"),
    ):
        table.add_row(name, escape(said))
    console.print()
    console.print(Panel(table, title="[bold green]done[/]", border_style="green", padding=(1, 2)))


def _rehearsed(session: Session) -> str:
    """Say what the gate's rehearsal showed."""
    checks = session.outcome.verdict.checks if session.outcome else ()
    return next((telling.of_check(check) for check in checks if check.id == "rehearsal"), "not rehearsed")


def _picture(console: Console, file: str) -> None:
    """Save what was shown; the picture names no font of a far server."""
    picture = re.sub(r"@font-face\s*{.*?}|<!--.*?-->", "", console.export_svg(title="make demo"), flags=re.DOTALL)
    reports.publish(file, picture, "picture")
