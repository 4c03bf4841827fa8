"""A run as a bar: samples, tokens per second, phase, time left, fed by the run's events; the log goes by above it."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

from rich.markup import escape
from rich.progress import BarColumn, TextColumn
from rich.progress import Progress as Bars
from rich.text import Text

from local.logtext import LogText
from local.text import clean

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from rich.console import Console

EVERY = 15.0  # seconds between two lines where there is no terminal for a bar
WINDOW = 0.3  # weight of the latest speed in the average that is shown
SPAN = 1.0  # seconds that a speed is of, at least: several events may be heard in the same moment


@dataclass(frozen=True, slots=True)
class Tally:
    """What the events have told so far; speeds are of this attempt, by the host's clock."""

    phase: str = "starting"
    attempt: int = 0
    total: int = 0
    done: int = 0
    failed: int = 0
    tokens: int = 0
    tokens_total: int = 0
    speed: float = 0.0  # samples per second
    token_speed: float = 0.0
    cause: str = ""
    last: tuple[float, int, int] | None = None  # time, samples dealt with, tokens

    @property
    def left(self) -> float | None:
        """Give the seconds that the rest will take; by tokens where their number is known."""
        if self.tokens_total > self.tokens and self.token_speed > 0:
            return (self.tokens_total - self.tokens) / self.token_speed
        rest = self.total - self.done - self.failed
        return rest / self.speed if rest >= 0 and self.total and self.speed > 0 else None


def after(tally: Tally, event: dict[str, Any]) -> Tally:
    """Give the tally after an event; unknown events and values that make no sense change nothing."""
    name = str(event.get("event"))
    if name in ("plan", "progress"):
        return _counted(tally, event)
    if name == "attempt":
        return replace(tally, phase="starting", attempt=_count(event, "attempt", tally.attempt), last=None)
    if name in ("phase", "ended"):
        tally = replace(tally, phase=str(event.get("phase", tally.phase)))
        if tally.phase == "extracting":  # the load before it says nothing of the speed
            tally = _from(tally, event.get("time"))
    elif name in ("retry", "stopping"):
        tally = replace(tally, phase={"retry": "retrying"}.get(name, name))
    return replace(tally, cause=str(event["cause"])) if name in ("retry", "ended") and event.get("cause") else tally


def _counted(tally: Tally, event: dict[str, Any]) -> Tally:
    new = replace(
        tally,
        total=_count(event, "total", tally.total),
        done=_count(event, "done", tally.done),
        failed=_count(event, "failed", tally.failed),
        tokens=_count(event, "tokens", _count(event, "tokens_done", tally.tokens)),
        tokens_total=_count(event, "tokens_total", tally.tokens_total),
    )
    if event["event"] == "progress" and new.phase in ("starting", "loading"):
        new = replace(new, phase="extracting")
    return _sped(new, event.get("time"))


def _sped(tally: Tally, now: Any) -> Tally:
    """Renew the average speeds."""
    if not _is_time(now):
        return tally
    dealt = tally.done + tally.failed
    if tally.last is not None and dealt >= tally.last[1] and now >= tally.last[0]:
        then, samples, tokens = tally.last
        if now - then < SPAN:
            return tally
        tally = replace(
            tally,
            speed=_average(tally.speed, (dealt - samples) / (now - then)),
            token_speed=_average(tally.token_speed, max(0, tally.tokens - tokens) / (now - then)),
        )
    return _from(tally, now)


def _from(tally: Tally, now: Any) -> Tally:
    """Measure from here on."""
    return replace(tally, last=(float(now), tally.done + tally.failed, tally.tokens)) if _is_time(now) else tally


def _is_time(now: Any) -> bool:
    return isinstance(now, int | float) and abs(now) < 1e15  # noqa: PLR2004 - thirty million years; not NaN


def _average(before: float, now: float) -> float:
    return now if before == 0 else before + WINDOW * (now - before)


def _count(event: dict[str, Any], name: str, before: int) -> int:
    value = event.get(name)
    return value if type(value) is int and value >= 0 else before


def summary(tally: Tally) -> str:
    """Give the tally as one line."""
    parts = [tally.phase]
    if tally.total:
        parts.append(f"{tally.done}/{tally.total} samples")
    elif tally.done:
        parts.append(f"{tally.done} samples")
    if tally.failed:
        parts.append(f"{tally.failed} failed")
    if tally.token_speed:
        parts.append(f"{tally.token_speed:,.0f} tokens/s")
    elif tally.speed:
        parts.append(f"{tally.speed:.3g} samples/s")
    if tally.left is not None and tally.phase == "extracting":
        parts.append(f"{duration(tally.left)} left")
    if tally.attempt > 1:
        parts.append(f"attempt {tally.attempt}")
    if tally.cause and tally.cause != "unknown":
        parts.append(tally.cause)
    return " · ".join(map(clean, parts))


def duration(seconds: float) -> str:
    """Give a duration for people: 42 s, 3 min 10 s, 2 h 05 min."""
    if not math.isfinite(seconds):
        return "?"
    whole = round(seconds)
    if whole < 60:  # noqa: PLR2004 - a minute
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    if minutes < 60:  # noqa: PLR2004 - an hour
        return f"{minutes} min {rest:02d} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min"


class Progress:
    """A bar for one host while the block lasts; without a terminal, a line now and then."""

    def __init__(
        self, console: Console, host: str, *, log: bool = True, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.tally = Tally()
        self._console = console
        self._log = log
        self._clock = clock
        self._text = LogText()
        self._said = clock()
        self._live = console.is_interactive and console.is_terminal
        columns = (TextColumn("[bold]{task.fields[host]}"), BarColumn(bar_width=24), TextColumn("{task.description}"))
        self._bars = Bars(*columns, console=console, transient=True, disable=not self._live)
        self._task = self._bars.add_task("", total=None, host=escape(clean(host)))

    def __enter__(self) -> Self:
        self._bars.start()
        self._show()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bars.stop()
        self._print(self._text.finish())

    def on_log(self, data: bytes) -> None:
        """Print the log's new lines above the bar."""
        self._print(self._text.feed(data))

    def on_event(self, event: dict[str, Any]) -> None:
        """Bring the bar up to date; say aloud what must not be missed."""
        before, self.tally = self.tally, after(self.tally, event)
        if (line := remarkable(event)) is not None:
            self._console.print(Text(line, "yellow"), soft_wrap=True)
        self._show()
        if not self._live and (before.phase != self.tally.phase or self._clock() - self._said > EVERY):
            self._said = self._clock()
            self._console.print(Text(summary(self.tally), "dim"), soft_wrap=True)

    def on_link(self, message: str) -> None:
        """Say what became of the link."""
        self._console.print(Text(clean(message), "yellow"), soft_wrap=True)

    def _print(self, lines: list[str]) -> None:
        if self._log:
            for line in lines:
                self._console.print(Text(line), soft_wrap=True)

    def _show(self) -> None:
        tally = self.tally
        self._bars.update(
            self._task,
            total=tally.total or None,
            completed=tally.done + tally.failed,
            description=escape(summary(tally)),
        )


def remarkable(event: dict[str, Any]) -> str | None:
    """Give a sentence for an event that a user should see pass by, None for the others."""
    name = str(event.get("event"))
    if name == "attempt-ended" and event.get("class") not in ("done", "stopped"):
        root = f": {event['root_line']}" if event.get("root_line") else ""
        advice = f" ({event['advice']})" if event.get("advice") else ""
        known = [str(word) for key in ("class", "cause") if (word := event.get(key)) not in (None, "", "unknown")]
        return clean(", ".join([f"attempt {event.get('attempt')} failed", *known]) + root + advice)
    template = _SENTENCES.get((name, str(event.get("action"))), _SENTENCES.get((name, None)))
    return None if template is None else clean(template.format_map(_Told(event)))


class _Told(dict[str, Any]):
    """An event's fields; what it does not tell is "?"."""

    def __missing__(self, key: str) -> str:
        return "?"


_SENTENCES: dict[tuple[Any, Any], str] = {
    ("retry", None): "attempt {attempt} in {delay} s ({cause})",
    ("hang", None): "attempt {attempt} hangs: {waiting}",
    ("hang", "report"): "attempt {attempt} hangs: {waiting}; it is left alone, as the job wishes",
    ("hang-over", None): "attempt {attempt} goes on",
    ("batch-halved", None): "memory ran out on a batch: going on with {size} samples at once",
    ("pattern-given-up", None): "`progress` takes too long on lines as {line!r}: given up, any line counts as life now",
    ("sample-failed", None): "sample {index} failed: {cause}",
}
