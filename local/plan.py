"""Who does which samples: the missing ones of a dataset, dealt to the hosts that are free. Pure functions of censuses.

A sample is missing that stands on no host and is in no living run's shard. The missing samples, in their order, are cut
into contiguous pieces by tokens, in proportion to speed; a host whose run is alive gets nothing new.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from local import cost
from local.errors import UsageError
from remote import ranges

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from remote.schema import CensusAnswer

WORTH = 0.1  # a share should take at least this part of the time that its load takes


@dataclass(frozen=True, kw_only=True, slots=True)
class Holding:
    """What one host has, decoded; `speed` is in tokens per second, `load` in seconds (None: never measured).

    `guess` and `guessed_speed` are what the gate expects where nothing was measured: for telling, never for dealing;
    `busy` says why nothing can be dealt to this host, and `refused` that
    its pipeline has ended: what it holds counts, all the same.
    """

    lengths: Sequence[int]
    dataset: str
    model: str
    folder: str
    standing: frozenset[int] = frozenset()
    working: frozenset[int] = frozenset()
    run: str | None = None
    speed: float | None = None
    load: float | None = None
    busy: str = ""
    guess: float | None = None
    guessed_speed: float | None = None
    usd_per_hour: float | None = None
    room: int | None = None  # for so many tokens
    refused: bool = False

    @property
    def free(self) -> bool:
        """Say whether something can be dealt to this host."""
        return self.run is None and not self.busy


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """The deal: `shards` of free hosts, the dataset's `lengths`, and why some hosts take no part (`absent`)."""

    lengths: Sequence[int]
    holdings: Mapping[str, Holding]
    shards: Mapping[str, tuple[int, ...]]
    absent: Mapping[str, str] = field(default_factory=dict)

    @property
    def chair(self) -> str:
        """Name the host under which is told what concerns all of them."""
        return chair(self.holdings)

    @property
    def total(self) -> int:
        """Count the dataset's samples."""
        return len(self.lengths)

    @property
    def standing(self) -> frozenset[int]:
        """Give the samples that stand somewhere."""
        return frozenset().union(*(holding.standing for holding in self.holdings.values()))

    @property
    def dealt(self) -> int:
        """Count the samples that this deal gives out."""
        return sum(map(len, self.shards.values()))

    def share(self, host: str) -> tuple[int, ...]:
        """Give what was dealt to a host, nothing where nothing was."""
        return self.shards.get(host, ())

    def tokens(self, indices: Collection[int]) -> int:
        """Count the tokens of samples."""
        return sum(self.lengths[index] for index in indices)

    def answers_for(self, host: str) -> str:
        """Give the samples whose files on a host this plan counts on, as ranges."""
        holding = self.holdings[host]
        return ranges.tell(holding.standing | holding.working | set(self.share(host)))

    def seconds(self, host: str) -> float | None:
        """Give how long a host's share takes, with its load; None where nobody can say."""
        holding, share = self.holdings[host], self.share(host)
        load, speed = holding.load or holding.guess, holding.speed or holding.guessed_speed
        if not share or not speed or load is None:
            return None
        return load + self.tokens(share) / speed

    def guessed(self, host: str) -> bool:
        """Say whether that time rests on something that was never measured on this host."""
        return not (self.holdings[host].load and self.holdings[host].speed)

    def usd(self, host: str) -> float | None:
        """Give what a host's share is expected to cost; None where price or time is not known."""
        return cost.spent(self.holdings[host].usd_per_hour, self.seconds(host))

    def idle(self, host: str) -> str:
        """Say why nothing was dealt to a host that takes part."""
        holding = self.holdings[host]
        if holding.run is not None:
            return f"the run {holding.run} works on {len(holding.working)} samples"
        if holding.busy:
            return holding.busy
        if holding.room is not None and holding.room < 2 * max(self.lengths, default=0):
            return "its disk has no room for more"
        if self.dealt:
            return "the others are done sooner than it would have loaded the model"
        left = self.total - len(self.standing)
        return f"{left} samples are being worked on elsewhere" if left else "every sample stands"


def chair(holdings: Mapping[str, Holding]) -> str:
    """Name the first host whose pipeline goes on."""
    return next((name for name, one in holdings.items() if not one.refused), "")


def holding(answer: CensusAnswer) -> Holding:
    """Decode a census; raises ranges.RangeError for one that cannot be understood."""
    lengths = ranges.unpack(answer.lengths)
    if len(lengths) != answer.total:
        raise ranges.RangeError(f"{answer.total} samples but {len(lengths)} lengths")
    for text in (answer.standing, answer.working):
        if any(span.stop > answer.total for span in ranges.spans(text)):  # before a short text becomes a long list
            raise ranges.RangeError(f"names samples beyond the {answer.total} that there are")
    standing, working = frozenset(ranges.parse(answer.standing)), frozenset(ranges.parse(answer.working))
    return Holding(
        lengths=lengths,
        dataset=answer.dataset,
        model=answer.model,
        folder=answer.folder,
        standing=standing,
        working=working,
        run=answer.run,
        speed=answer.tokens_per_second,
        load=answer.load_seconds,
        busy=answer.busy,
        room=answer.room,
    )


def make(holdings: Mapping[str, Holding], absent: Mapping[str, str]) -> Plan:
    """Deal what is missing to the hosts that are free; raises UsageError where the hosts cannot share a job."""
    strangers = _strangers(holdings)
    absent = {**absent, **{name: f"{holdings[name].busy}; its dataset or model is another" for name in strangers}}
    holdings = {name: one for name, one in holdings.items() if name not in strangers}
    agree(holdings)
    lengths = next(iter(holdings.values())).lengths if holdings else ()
    taken = frozenset[int]().union(*(one.standing | one.working for one in holdings.values()))
    missing = [index for index in range(len(lengths)) if index not in taken]
    free = {name: one for name, one in holdings.items() if one.free}
    speeds = {name: one.speed for name, one in free.items()}
    return Plan(
        lengths=lengths,
        holdings=holdings,
        shards=deal(missing, lengths, speeds, worth=_worth(free), rooms={name: one.room for name, one in free.items()}),
        absent=absent,
    )


def deal(
    missing: Sequence[int],
    lengths: Sequence[int],
    speeds: Mapping[str, float | None],
    *,
    worth: float = 0.0,
    rooms: Mapping[str, int | None] | None = None,
) -> dict[str, tuple[int, ...]]:
    """Cut the missing samples into one contiguous piece per host, by tokens and in proportion to speed.

    A speed that is not known is the mean of those that are. `worth` are the tokens that a share should have at least:
    with fewer, the fastest hosts do it alone. `rooms` are the tokens that a host has room for: what is too much for
    one goes to the others, and what is too much for all is left. Hosts that get nothing are not named.
    """
    weights = [max(1, lengths[index]) for index in missing]
    if not weights:
        return {}
    whole, longest = sum(weights), max(weights)
    # A cut falls within one sample of its target.
    limits = {name: max(0, room - longest) for name, room in (rooms or {}).items() if room is not None}
    if any(limit < whole for limit in limits.values()):
        worth = 0.0  # where room is scarce, no host is left out for the sake of a load
    targets = _targets(_chosen(_known(speeds), whole, worth), whole, limits)
    shards: dict[str, list[int]] = {name: [] for name in targets}
    names, place, passed = list(targets), 0, 0
    bounds = list(itertools.accumulate(targets.values()))
    if bounds and bounds[-1] > whole - 0.5:  # a sum of fractions: the last takes all that is left
        bounds[-1] = float(whole)
    for index, weight in zip(missing, weights, strict=True):
        while place < len(names) and passed + weight / 2 > bounds[place]:
            place += 1
        if place == len(names):
            break
        shards[names[place]].append(index)
        passed += weight
    return {name: tuple(shard) for name, shard in shards.items() if shard}


def _targets(speeds: Mapping[str, float], whole: float, limits: Mapping[str, int]) -> dict[str, float]:
    """Give the tokens that each host should get: in proportion to speed, no more than it has room for."""
    full: dict[str, float] = {}
    while True:
        open_ = {name: speed for name, speed in speeds.items() if name not in full}
        left = whole - sum(full.values())
        fair = {name: left * speed / sum(open_.values()) for name, speed in open_.items()}
        over = {name: float(limits[name]) for name, share in fair.items() if share > limits.get(name, math.inf)}
        if not over:
            return {name: full.get(name, fair.get(name, 0.0)) for name in speeds}
        full |= over


def _known(speeds: Mapping[str, float | None]) -> dict[str, float]:
    """Give every host a speed."""
    known = [speed for speed in speeds.values() if speed]
    mean = sum(known) / len(known) if known else 1.0
    return {name: speed or mean for name, speed in speeds.items()}


def _chosen(speeds: dict[str, float], tokens: int, worth: float) -> dict[str, float]:
    """Give the hosts that are worth a load, the fastest ones, in their order."""
    if worth <= 0 or not speeds:
        return speeds
    count = max(1, int(tokens // worth))
    fastest = sorted(speeds, key=lambda name: -speeds[name])[:count]
    return {name: speed for name, speed in speeds.items() if name in fastest}


def _worth(free: Mapping[str, Holding]) -> float:
    """Give the tokens that are worth a load, 0 where no load or no speed was ever measured."""
    loads = [one.load for one in free.values() if one.load]
    speeds = [one.speed for one in free.values() if one.speed]
    if not loads or not speeds:
        return 0.0
    return WORTH * (sum(loads) / len(loads)) * (sum(speeds) / len(speeds))


def _strangers(holdings: Mapping[str, Holding]) -> set[str]:
    """Name the hosts to which nothing can be dealt anyhow, and whose samples are not of the others' dataset."""
    free = [one for one in holdings.values() if not one.busy]
    if not free:
        return set()
    datasets, models = {one.dataset for one in free}, {one.model for one in free} | {""}
    return {
        name
        for name, one in holdings.items()
        if one.busy and (one.dataset not in datasets or (one.model not in models and models != {""}))
    }


def agree(holdings: Mapping[str, Holding]) -> None:
    """Hold the hosts to one dataset, one model and a folder each; raises UsageError that names who differs."""
    for what, values in (
        ("dataset", {name: one.dataset for name, one in holdings.items()}),
        ("model", {name: one.model for name, one in holdings.items() if one.model}),
    ):
        if odd := _odd(values):
            raise UsageError(
                f"the hosts cannot share this job: {_what(what, odd, holdings)}",
                remedy=f"Bring the same {what} (and tokenizer) to every host, or name only hosts that agree with -H.",
            )
    folders: dict[str, list[str]] = {}
    for name, one in holdings.items():
        folders.setdefault(one.folder, []).append(name)
    shared = next((names for names in folders.values() if len(names) > 1), None)
    if shared:
        raise UsageError(
            f"the hosts {', '.join(shared)} write to one output folder: it is shared between them, or they are one "
            "machine under several names",
            remedy="Give each host its own `output` (below ~/, or on its own disk), or name one of them with -H. Where "
            "a folder is a copy of another's, remove `.prudent-gate.id` from the copy.",
        )


def _odd(values: Mapping[str, str]) -> list[list[str]]:
    """Give the groups of hosts that agree among themselves, the largest first; nothing where all do."""
    counted = Counter(values.values())
    if len(counted) < 2:  # noqa: PLR2004 - one value is agreement
        return []
    return [[name for name, value in values.items() if value == one] for one, _ in counted.most_common()]


def _what(what: str, groups: list[list[str]], holdings: Mapping[str, Holding]) -> str:
    told = [
        f"{', '.join(names)}{f' ({len(holdings[names[0]].lengths)} samples)' if what == 'dataset' else ''}"
        for names in groups
    ]
    return f"the {what} of {told[0]} is not that of {' nor that of '.join(told[1:])}"
