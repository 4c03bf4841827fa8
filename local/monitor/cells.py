"""One cell of the screen each: from a row to a few coloured characters."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.cells import cell_len
from rich.text import Text

from local.cost import money
from local.monitor import rates
from local.progress import duration
from local.summary import of_all, size
from local.tables import STYLES
from local.text import clean

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from local.monitor.rows import Row, Totals
    from remote.schema import GpuReading

HOT = 85  # degrees Celsius
IDLE = 50  # per cent: a card below it while samples are being computed is worth a look
CROWDED = 97  # per cent of a card's memory
TIGHT = 0.05  # of a disk
OLD = 20.0  # seconds after which a reading of the cards is told as old
GIB = 2**30
NOTHING = "–"


def host(row: Row) -> Text:
    """Give the host's name."""
    return Text(row.name, "bold")


def phase(row: Row) -> Text:
    """Give the run's phase, and the attempt where it is not the first."""
    if row.phase is None:
        words = {"connecting": "connecting", "unreachable": "unreachable"}.get(row.state, "no run")
        return Text(words, "yellow" if row.state == "unreachable" else "dim")
    text = Text(row.phase, STYLES.get(row.phase, "bold"))
    if row.attempt > 1:
        text.append(f" #{row.attempt}", "yellow")
    return text


def samples(row: Row) -> Text:
    """Give samples done of all, and those that failed."""
    if row.run is None:
        return Text(NOTHING, "dim")
    count = row.samples
    text = Text(of_all(count.done, count.total), "" if count.total or count.done else "dim")
    if count.failed:
        text.append(f" {count.failed}✗", "red")
    return text


def speed(row: Row) -> Text:
    """Give tokens per second, or samples where no tokens are counted."""
    if row.tokens_per_second is not None:
        return Text(f"{row.tokens_per_second:,.0f}", "red" if not row.tokens_per_second else "")
    if row.samples_per_second is not None:
        return Text(f"{row.samples_per_second:.3g} smp", "red" if not row.samples_per_second else "")
    return Text(NOTHING, "dim")


def past(row: Row, *, plain: bool) -> Text:
    """Give the speed of the last minutes as bars."""
    if not any(value is not None for value in row.past):
        return Text(NOTHING, "dim")
    return Text(rates.bars(row.past, plain=plain), "cyan")


def left(row: Row) -> Text:
    """Give the time that the rest will take."""
    return Text(NOTHING, "dim") if row.left is None or row.phase != "extracting" else Text(short(row.left))


def gpus(row: Row, *, plain: bool) -> Text:
    """Give a bar for each card, the idlest or troubled ones coloured, and their range in words."""
    found = row.gpus.gpus
    if not found:
        return _no_gpus(row)
    text = Text()
    for card in found:
        text.append(*_card(card, working=row.phase == "extracting", plain=plain))
    busy = [card.utilisation for card in found if card.utilisation is not None]
    if busy:
        text.append(f" {_range(busy)}%", "yellow" if row.phase == "extracting" and min(busy) < IDLE else "")
    elif any(card.mig for card in found):
        text.append(" MIG", "dim")
    if row.gpus.age is not None and row.gpus.age > OLD:
        text.append(f" {short(row.gpus.age)} old", "yellow")
    return text


def memory(row: Row) -> Text:
    """Give the fullest card's memory."""
    told = [
        (card.memory_used / card.memory_total, card.memory_used, card.memory_total)
        for card in row.gpus.gpus
        if card.memory_used is not None and card.memory_total
    ]
    if not told:
        return Text(NOTHING, "dim")
    share, used, whole = max(told)
    return Text(f"{used / GIB:.0f}/{whole / GIB:.0f}G", "yellow" if share * 100 >= CROWDED else "")


def temperature(row: Row) -> Text:
    """Give the hottest card's temperature."""
    told = [card.temperature for card in row.gpus.gpus if card.temperature is not None]
    return Text(str(max(told)), "red" if max(told) >= HOT else "") if told else Text(NOTHING, "dim")


def disk(row: Row) -> Text:
    """Give what the output's file system has left."""
    if row.disk is None or row.disk.free is None:
        return Text("no answer", "yellow") if row.disk is not None and row.disk.pending else Text(NOTHING, "dim")
    tight = row.disk.total and row.disk.free / row.disk.total < TIGHT
    return Text(size(row.disk.free), "red" if tight else "")


def load(row: Row) -> Text:
    """Give the load of the host's processors."""
    if row.load is None:
        return Text(NOTHING, "dim")
    return Text(f"{row.load:.1f}/{row.cpus}", "yellow" if row.cpus and row.load > 2 * row.cpus else "dim")


def spent(row: Row) -> Text:
    """Give what the run has cost so far."""
    return Text(money(row.spent), "dim" if row.spent is None else "")


def expected(row: Row) -> Text:
    """Give what the run will have cost."""
    return Text(money(row.expected), "dim" if row.expected is None else "")


def news(row: Row) -> Text:
    """Give the age of what is shown; a host that has never answered has none."""
    if row.age is None:
        return Text("never" if row.state == "unreachable" else "…", "yellow" if row.state == "unreachable" else "dim")
    words = f"{short(row.age)} ago"
    return Text(words, "dim" if row.state == "live" else "bold yellow")


def totals(all_of: Totals, width: int) -> list[Text]:
    """Give all hosts in a line, or in as many as the width asks for."""
    lines = [""]
    for part in _parts(all_of):
        longer = f"{lines[-1]} · {part}" if lines[-1] else part
        if cell_len(longer) <= width or not lines[-1]:
            lines[-1] = longer
        else:
            lines.append(part)
    return [Text(line, "bold", no_wrap=True, overflow="ellipsis") for line in lines]


def _parts(all_of: Totals) -> Iterator[str]:
    states = ", ".join(f"{count} {word}" for word, count in sorted(all_of.states.items(), key=lambda pair: -pair[1]))
    hosts = f"{all_of.hosts} host{'' if all_of.hosts == 1 else 's'}"
    yield f"{hosts}: {states}" if states else hosts
    if all_of.samples.total or all_of.samples.done:
        yield f"{of_all(all_of.samples.done, all_of.samples.total, ',')} samples"
    if all_of.samples.failed:
        yield f"{all_of.samples.failed:,} failed"
    if all_of.tokens_per_second is not None:
        yield f"{all_of.tokens_per_second:,.0f} tokens/s"
    if all_of.left is not None:
        yield f"{duration(all_of.left)} left"
    if all_of.spent is not None:
        yield f"{money(all_of.spent)} so far"
    if all_of.expected is not None:
        yield f"{money(all_of.expected)} at the end"


def _no_gpus(row: Row) -> Text:
    error = row.gpus.error
    if error is None:
        return Text(NOTHING, "dim") if row.gpus.pending is None else Text("asking", "dim")
    if error.startswith("not installed"):
        return Text("none", "dim")
    return Text("no answer" if error.startswith(("hung", "no answer")) else "failed", "red")


def _card(card: GpuReading, *, working: bool, plain: bool) -> tuple[str, str]:
    """Give a card's bar and its colour."""
    ramp = rates.PLAIN_BARS if plain else rates.BARS
    if card.trouble:
        return "x" if plain else "✗", "bold red"
    if card.utilisation is None:
        return ".", "dim"
    bar = ramp[min(len(ramp) - 1, card.utilisation * len(ramp) // 100)]
    if card.temperature is not None and card.temperature >= HOT:
        return bar, "bold red"
    return bar, "bold yellow" if working and card.utilisation < IDLE else "green"


def _range(values: Sequence[int]) -> str:
    least, most = min(values), max(values)
    return str(least) if least == most else f"{least}-{most}"


def short(seconds: float) -> str:
    """Give a duration in two or three words at most."""
    whole = round(seconds)
    if whole < 60:  # noqa: PLR2004 - a minute
        return f"{whole} s"
    if whole < 3600:  # noqa: PLR2004 - an hour
        return f"{whole // 60} min"
    if whole < 48 * 3600:
        return f"{whole // 3600} h {whole % 3600 // 60:02d}"
    return f"{whole // 86400} d {whole % 86400 // 3600} h"


def trouble(row: Row) -> str:
    """Say what is wrong with the cards, empty for nothing."""
    words = [f"GPU {card.index}: {clean(card.trouble)}" for card in row.gpus.gpus if card.trouble]
    error = row.gpus.error
    if error is not None and not error.startswith("not installed"):
        words.append(clean(error))
    return "; ".join(words)
