"""From what a host has answered, and what became of its link, to all that the screen shows of it. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from local import cost
from local.masks import mask, mask_torn
from local.monitor import rates
from local.text import clean
from remote.paths import ENDED
from remote.schema import GpuReadings, Samples

if TYPE_CHECKING:
    from collections.abc import Iterable

    from local.errors import PrudentError
    from remote.schema import DiskLeft, PulseAnswer, RunStatus

STALE_AFTER = 3  # intervals without news
STALE_LEAST = 10.0  # seconds
LONG = 8192  # characters of a last line whose start may not have been read
EARLIEST, LATEST = 1e6, 1e11  # seconds since 1970 that may be a moment, however wrong a host's clock is
WORST = ("failed", "lost", "stopped")


@dataclass(frozen=True, kw_only=True, slots=True)
class News:
    """What is known of a host: its last answer, when it came (monotonic), and what the last try met, if not an answer.

    `skew` is the host's clock less the laptop's; `tries` counts what has failed since the last answer.
    """

    answer: PulseAnswer | None = None
    at: float = 0.0
    skew: float = 0.0
    error: PrudentError | None = None
    tries: int = 0
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Watched:
    """A host that is watched: what the inventory says of it, and how it is asked."""

    name: str
    usd_per_hour: float | None = None
    secrets: tuple[str, ...] = ()
    interval: float = 5.0
    run: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """One host on the screen. `state` is live, stale, unreachable or connecting: of the news, not of the run."""

    name: str
    state: str
    age: float | None = None
    error: str = ""
    run: str | None = None
    phase: str | None = None
    attempt: int = 0
    samples: Samples = field(default_factory=Samples)
    tokens: int = 0
    tokens_total: int = 0
    tokens_per_second: float | None = None
    samples_per_second: float | None = None
    past: tuple[float | None, ...] = ()
    left: float | None = None
    elapsed: float | None = None
    gpus: GpuReadings = field(default_factory=GpuReadings)
    disk: DiskLeft | None = None
    load: float | None = None
    cpus: int = 0
    line: str = ""
    cause: str = ""
    usd_per_hour: float | None = None
    spent: float | None = None
    expected: float | None = None

    @property
    def ended(self) -> bool:
        """Tell whether there is nothing more to come of this host's run, as far as is known."""
        return self.state == "live" and (self.phase is None or self.phase in ENDED)

    @property
    def failed(self) -> bool:
        """Tell whether the run did not do what it should."""
        return self.phase in WORST


def row(host: Watched, news: News, *, monotonic: float, clock: float, width: int = 30) -> Row:
    """Give a host's row; `monotonic` and `clock` are the laptop's now, `width` the slices of the past."""
    if news.answer is not None:
        news = replace(news, answer=_sane(news.answer, clock))
    bare = Row(name=host.name, state="connecting", usd_per_hour=host.usd_per_hour, error=_error(host, news))
    if news.answer is None:
        return replace(bare, state="unreachable" if news.error else "connecting")
    age = max(0.0, monotonic - news.at)
    known = replace(
        bare,
        state=_state(news, age, host.interval),
        age=age,
        gpus=_older(news.answer.gpus, age),
        disk=news.answer.disk,
        load=news.answer.load,
        cpus=news.answer.cpus,
        line=_safe(
            mask_torn(news.answer.line, host.secrets, start=len(news.answer.line) > LONG, end=True), host.secrets
        ),
    )
    if news.answer.run is None:
        missing = f"no run {host.run} here" if host.run else ""
        return replace(known, error=known.error or missing)
    return _with_run(known, host, news.answer, news.answer.run, now=clock + news.skew, width=width)


def _with_run(known: Row, host: Watched, answer: PulseAnswer, run: RunStatus, *, now: float, width: int) -> Row:
    """Add what is known of the run; `now` is the host's clock."""
    ended = run.phase in ENDED
    working = run.phase == "extracting"
    by_tokens = run.tokens_total > 0 or run.tokens > 0
    tokens = rates.speed(answer.points, answer.now, lambda point: point.tokens) if working and by_tokens else None
    samples = rates.speed(answer.points, answer.now, lambda point: point.samples) if working else None
    rest = rates.left(run.tokens_total, run.tokens, tokens)
    if rest is None:
        rest = rates.left(run.samples.total, run.samples.done + run.samples.failed, samples)
    until = run.last_seen if ended else now
    elapsed = None if run.started is None or until is None else max(0.0, until - run.started)
    past = rates.series(
        answer.points, answer.now, lambda point: point.tokens if by_tokens else point.samples, width=width
    )
    return replace(
        known,
        run=run.run,
        phase=run.phase,
        attempt=run.attempt,
        samples=run.samples,
        tokens=run.tokens,
        tokens_total=run.tokens_total,
        tokens_per_second=tokens,
        samples_per_second=samples,
        past=tuple(past),
        left=0.0 if ended else rest,
        elapsed=elapsed,
        cause=_safe(run.cause or "", host.secrets),
        spent=cost.spent(host.usd_per_hour, elapsed),
        expected=cost.expected(host.usd_per_hour, elapsed, 0.0 if ended else rest),
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class Totals:
    """All hosts together; `left` is that of the slowest, None while one that works cannot tell its own.

    `expected` is None while that of a run that goes on is not known: a sum without it would be too good.
    """

    hosts: int
    states: dict[str, int]
    samples: Samples
    tokens: int
    tokens_total: int
    tokens_per_second: float | None
    left: float | None
    spent: float | None
    expected: float | None


def totals(rows: Iterable[Row]) -> Totals:
    """Add up the rows."""
    found = list(rows)
    states: dict[str, int] = {}
    for one in found:
        word = one.state if one.state != "live" else one.phase or "no run"
        states[word] = states.get(word, 0) + 1
    with_run = [one for one in found if one.run is not None]
    going = [one for one in with_run if one.phase not in ENDED]
    lefts = [one.left for one in going]
    priced = [one for one in with_run if one.usd_per_hour is not None]
    return Totals(
        hosts=len(found),
        states=states,
        samples=Samples(
            total=sum(one.samples.total for one in with_run),
            done=sum(one.samples.done for one in with_run),
            failed=sum(one.samples.failed for one in with_run),
        ),
        tokens=sum(one.tokens for one in with_run),
        tokens_total=sum(one.tokens_total for one in with_run),
        tokens_per_second=cost.total(one.tokens_per_second for one in with_run if one.state == "live"),
        left=None if not going or None in lefts else max(left for left in lefts if left is not None),
        spent=cost.total(one.spent for one in priced),
        expected=None if any(one.expected is None for one in priced) else cost.total(one.expected for one in priced),
    )


def _sane(answer: PulseAnswer, clock: float) -> PulseAnswer:
    """Give an answer without moments that none can be: what is counted with them would be no number."""
    run = answer.run
    if run is not None:
        started, seen = (when if when is not None and _moment(when) else None for when in (run.started, run.last_seen))
        run = replace(run, started=started, last_seen=seen)
    points = tuple(point for point in answer.points if _moment(point.time))
    return replace(answer, now=answer.now if _moment(answer.now) else clock, points=points, run=run)


def _moment(when: float) -> bool:
    return EARLIEST <= when < LATEST


def _state(news: News, age: float, interval: float) -> str:
    if news.error is not None:
        return "unreachable"
    return "live" if age <= max(STALE_AFTER * interval, STALE_LEAST) else "stale"


def _error(host: Watched, news: News) -> str:
    return "" if news.error is None else _safe(news.error.message, host.secrets)


def _older(readings: GpuReadings, age: float) -> GpuReadings:
    return readings if readings.age is None else replace(readings, age=readings.age + age)


def _safe(text: str, secrets: Iterable[str]) -> str:
    """Make text of a host fit for a screen: no terminal commands, no secrets, one line."""
    return mask(clean(text.rstrip("\r\n").rpartition("\r")[2]), secrets).strip()
