"""A plan as people read it, and as a document."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.markup import escape

from local import cost
from local.summary import duration
from local.tables import plain
from local.text import clean
from local.whole import shortly
from remote import ranges

if TYPE_CHECKING:
    from rich.table import Table

    from local.plan import Plan

SCHEMA = 1


def table(plan: Plan) -> Table:
    """Give the plan: what each host is to do, how long it takes and what it costs as far as that is known."""
    made = plain("host", "stands", "to do", "tokens", "share", "time", "cost", "samples",
                 right=("stands", "to do", "tokens", "share", "time", "cost"))  # fmt: skip
    whole = sum(plan.tokens(shard) for shard in plan.shards.values())
    for name, holding in plan.holdings.items():
        share, seconds = plan.share(name), plan.seconds(name)
        tokens = plan.tokens(share)
        made.add_row(
            escape(name),
            f"{len(holding.standing):,}",
            f"{len(share):,}",
            f"{tokens:,}" if share else "",
            f"{tokens / whole:.0%}" if share and whole else "",
            f"{'~' * plan.guessed(name)}{duration(seconds)}" if seconds is not None else "–",
            cost.money(plan.usd(name)),
            escape(shortly(ranges.tell(share))) if share else f"[dim]{escape(clean(plan.idle(name)))}[/]",
        )
    for name, why in plan.absent.items():
        made.add_row(escape(name), "?", "", "", "", "", "", f"[yellow]takes no part: {escape(clean(why))}[/]")
    made.caption, made.caption_justify = escape(words(plan)), "left"
    return made


def words(plan: Plan) -> str:
    """Say in a few words what is there, what is dealt and what is not known."""
    working = frozenset[int]().union(*(holding.working for holding in plan.holdings.values())) - plan.standing
    said = [f"{plan.total:,} samples: {len(plan.standing):,} stand"]
    if working:
        said.append(f"{len(working):,} are being worked on")
    said.append(f"{plan.dealt:,} are dealt now")
    if left := plan.total - len(plan.standing | working) - plan.dealt:
        said.append(f"{left:,} are left: no host is free or has room for them")
    text = ", ".join(said)
    if plan.absent and plan.dealt:
        text += f". What {', '.join(plan.absent)} may hold is not known: it is dealt to the others"
    costs = [plan.usd(name) for name in plan.shards]
    total = cost.total(costs)
    if total is not None:
        text += f". About {cost.money(total)}{' as far as is known' if None in costs else ''}"
    return text


def document(plan: Plan, job: str) -> dict[str, Any]:
    """Give the document of `extract --dry-run --json`."""
    return {
        "schema": SCHEMA,
        "job": job,
        "total": plan.total,
        "standing": ranges.tell(plan.standing),
        "dealt": plan.dealt,
        "hosts": {name: _host(plan, name) for name in plan.holdings},
        "absent": dict(plan.absent),
    }


def _host(plan: Plan, name: str) -> dict[str, Any]:
    holding, share = plan.holdings[name], plan.share(name)
    seconds, usd = plan.seconds(name), plan.usd(name)
    return {
        "shard": ranges.tell(share),
        "samples": len(share),
        "tokens": plan.tokens(share),
        "seconds": None if seconds is None else round(seconds, 1),
        "guessed": seconds is not None and plan.guessed(name),
        "usd": None if usd is None else round(usd, 2),
        "standing": ranges.tell(holding.standing),
        "working": ranges.tell(holding.working),
        "run": holding.run,
        "why_nothing": "" if share else plan.idle(name),
    }
