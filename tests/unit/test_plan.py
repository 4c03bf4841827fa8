"""The deal: every missing sample in exactly one shard, whatever the history."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from local import plan
from local.errors import UsageError
from local.plan import Holding
from remote import ranges
from remote.schema import CensusAnswer

HOSTS = ("a", "b", "c", "d", "e")
LENGTHS = st.lists(st.integers(0, 3000), min_size=1, max_size=60)
SPEEDS = st.dictionaries(st.sampled_from(HOSTS), st.none() | st.floats(0.1, 1e6), min_size=1)


def holds(lengths: list[int], folder: str, **more: Any) -> Holding:
    return Holding(lengths=lengths, dataset="d", model="m", folder=folder, **more)


# ---- one deal --------------------------------------------------------------------------------------------------------


@given(LENGTHS, SPEEDS, st.data())
def test_every_missing_sample_is_dealt_once_in_contiguous_pieces(
    lengths: list[int], speeds: dict[str, float | None], data: st.DataObject
) -> None:
    missing = sorted(data.draw(st.sets(st.sampled_from(range(len(lengths))))))
    shards = plan.deal(missing, lengths, speeds, worth=data.draw(st.sampled_from([0.0, 100.0, 1e9])))
    assert [index for name in speeds if name in shards for index in shards[name]] == missing  # in the hosts' order
    assert set(shards) <= set(speeds)
    assert all(shards.values())


@given(LENGTHS, st.dictionaries(st.sampled_from(HOSTS), st.floats(1, 1000), min_size=1))
def test_a_share_is_in_proportion_to_speed_within_one_sample(lengths: list[int], speeds: dict[str, float]) -> None:
    shards = plan.deal(range(len(lengths)), lengths, speeds)
    weights = [max(1, length) for length in lengths]
    for name, speed in speeds.items():
        fair = sum(weights) * speed / sum(speeds.values())
        assert abs(sum(weights[index] for index in shards.get(name, ())) - fair) <= max(weights) * (1 + 1e-9)


def test_a_speed_that_is_not_known_is_the_mean_of_the_others() -> None:
    shards = plan.deal(range(600), [10] * 600, {"slow": 100.0, "new": None, "fast": 300.0})
    assert {name: len(shard) for name, shard in shards.items()} == {"slow": 100, "new": 200, "fast": 300}
    even = plan.deal(range(600), [10] * 600, {"one": None, "two": None, "three": None})
    assert {len(shard) for shard in even.values()} == {200}


@given(LENGTHS, st.dictionaries(st.sampled_from(HOSTS), st.floats(1, 1000), min_size=1), st.data())
def test_no_host_gets_more_than_it_has_room_for(
    lengths: list[int], speeds: dict[str, float], data: st.DataObject
) -> None:
    rooms = {name: data.draw(st.none() | st.integers(0, 20_000), label=name) for name in speeds}
    shards = plan.deal(range(len(lengths)), lengths, speeds, worth=data.draw(st.sampled_from([0, 500])), rooms=rooms)
    weights = [max(1, length) for length in lengths]
    for name, shard in shards.items():
        assert rooms[name] is None or sum(weights[index] for index in shard) <= rooms[name]
    dealt = [index for name in speeds for index in shards.get(name, ())]
    assert dealt == list(range(len(dealt)))
    usable = sum(len(lengths) * 3001 if room is None else max(0, room - 2 * max(weights)) for room in rooms.values())
    assert len(dealt) == len(lengths) or usable < sum(weights), "left, though there was room"


def test_what_is_too_much_for_one_goes_to_the_others() -> None:
    shards = plan.deal(range(100), [10] * 100, {"small": 1.0, "large": 1.0}, rooms={"small": 110, "large": None})
    assert {name: len(shard) for name, shard in shards.items()} == {"small": 10, "large": 90}


def test_long_samples_weigh_more() -> None:
    shards = plan.deal(range(4), [3000, 1000, 1000, 1000], {"one": None, "two": None})
    assert shards == {"one": (0,), "two": (1, 2, 3)}


def test_no_host_is_loaded_for_a_share_that_is_over_in_a_moment() -> None:
    one = holds([100] * 50, "1", speed=100.0, load=1000.0)  # 50 seconds of work, loads of 1000
    two = holds([100] * 50, "2", speed=200.0, load=1000.0)
    assert plan.make({"one": one, "two": two}, {}).shards == {"two": tuple(range(50))}
    fresh = [dataclasses.replace(host, load=None) for host in (one, two)]
    assert len(plan.make({"one": fresh[0], "two": fresh[1]}, {}).shards) == 2


@pytest.mark.parametrize("free", [{}, {"a": None}])
def test_nothing_missing_or_nobody_free_deals_nothing(free: dict[str, None]) -> None:
    assert plan.deal([] if free else [0, 1], [5, 5], free) == {}


# ---- rounds ----------------------------------------------------------------------------------------------------------


@dataclasses.dataclass
class Machine:
    """A host of the simulation: what stands there, and the shard of the run that is alive."""

    name: str
    files: set[int] = dataclasses.field(default_factory=set)
    run: set[int] | None = None
    up: bool = True
    speed: float | None = None

    def census(self, lengths: list[int]) -> Holding:
        return holds(
            lengths, self.name, standing=frozenset(self.files), working=frozenset(self.run or ()),
            run="run" if self.run is not None else None, speed=self.speed,
        )  # fmt: skip


def play(machines: list[Machine], data: st.DataObject) -> None:
    """Let something happen: work is done, runs end early, machines die and come back, files are lost."""
    for machine in machines:
        happened = data.draw(st.sampled_from(["works", "finishes", "fails", "dies", "returns", "damage", "nothing"]))
        if happened in {"works", "finishes", "fails"} and machine.run is not None and machine.up:
            left = sorted(machine.run - machine.files)
            done = left if happened == "finishes" else left[: data.draw(st.integers(0, len(left)))]
            machine.files |= set(done)
            machine.run = None if happened != "works" else machine.run
        elif happened == "dies":
            machine.up, machine.run = False, None  # whatever it had: nobody knows
        elif happened == "returns":
            machine.up = True
        elif happened == "damage" and machine.files and machine.run is None:
            machine.files.discard(data.draw(st.sampled_from(sorted(machine.files))))
        machine.speed = data.draw(st.none() | st.floats(1, 100))


def deal(machines: list[Machine], lengths: list[int]) -> plan.Plan:
    seen = {machine.name: machine.census(lengths) for machine in machines if machine.up}
    made = plan.make(seen, {machine.name: "unreachable" for machine in machines if not machine.up})
    running = {index for machine in machines if machine.up and machine.run is not None for index in machine.run}
    dealt = [index for shard in made.shards.values() for index in shard]
    assert len(dealt) == len(set(dealt))
    assert not running.intersection(dealt), "dealt while it is being worked on"
    assert not made.standing.intersection(dealt), "dealt while it stands"
    free = [machine for machine in machines if machine.up and machine.run is None]
    assert set(made.shards) <= {machine.name for machine in free}
    if free:
        assert made.standing | running | set(dealt) == set(range(len(lengths)))
    for machine in free:
        machine.run = set(made.share(machine.name)) or None
    return made


@settings(max_examples=200)
@given(LENGTHS, st.integers(1, 5), st.data())
def test_whatever_the_history_rounds_end_with_every_sample_standing(
    lengths: list[int], count: int, data: st.DataObject
) -> None:
    machines = [Machine(name) for name in HOSTS[:count]]
    lost = False
    for _ in range(data.draw(st.integers(0, 6))):
        deal(machines, lengths)
        play(machines, data)
        lost = lost or not all(machine.up for machine in machines)
        if len(machines) < len(HOSTS) and data.draw(st.booleans()):
            machines.append(Machine(HOSTS[len(machines)]))
    for machine in machines:
        machine.up = True
    for _ in range(2):  # whatever runs comes to its end, and one more deal fills what that left
        deal(machines, lengths)
        for machine in machines:
            machine.files |= machine.run or set()
            machine.run = None
    standing = [index for machine in machines for index in machine.files]
    assert set(standing) == set(range(len(lengths)))
    assert lost or len(standing) == len(set(standing)), "twice, though no host was ever out of sight"
    assert deal(machines, lengths).dealt == 0


# ---- who cannot share a job ------------------------------------------------------------------------------------------


def test_hosts_of_two_datasets_are_named() -> None:
    hosts = {name: holds([5] * 3, name) for name in "abc"}
    hosts["b"] = dataclasses.replace(hosts["b"], dataset="other", lengths=[5])
    with pytest.raises(UsageError, match=r"the dataset of a, c \(3 samples\) is not that of b \(1 samples\)"):
        plan.make(hosts, {})


def test_hosts_of_two_models_are_named_and_a_model_that_is_not_known_is_none() -> None:
    hosts = {name: holds([5], name) for name in "abc"}
    hosts["a"] = dataclasses.replace(hosts["a"], model="")
    assert plan.make(hosts, {}).dealt == 1
    hosts["c"] = dataclasses.replace(hosts["c"], model="other")
    with pytest.raises(UsageError, match="the model of b is not that of c"):
        plan.make(hosts, {})


def test_hosts_that_share_a_folder_are_named() -> None:
    with pytest.raises(UsageError, match="the hosts a, c write to one output folder"):
        plan.make({"a": holds([5], "same"), "b": holds([5], "own"), "c": holds([5], "same")}, {})


# ---- what a plan says ------------------------------------------------------------------------------------------------


def test_a_busy_host_gets_nothing_and_what_it_works_on_is_not_dealt() -> None:
    made = plan.make(
        {"a": holds([5] * 4, "a", busy="another workdir", working=frozenset({0})), "b": holds([5] * 4, "b")}, {}
    )
    assert made.shards == {"b": (1, 2, 3)}


def test_a_host_that_its_gate_refused_counts_with_what_it_holds_if_it_is_of_this_dataset() -> None:
    refused = holds([5] * 4, "a", busy="the gate said no", refused=True, standing=frozenset({0, 1}))
    made = plan.make({"a": refused, "b": holds([5] * 4, "b")}, {})
    assert (made.shards, made.chair) == ({"b": (2, 3)}, "b")
    for changes in ({"dataset": "other"}, {"model": "other"}):
        other = dataclasses.replace(refused, **changes)
        made = plan.make({"a": other, "b": holds([5] * 4, "b")}, {"c": "unreachable"})
        assert made.shards == {"b": (0, 1, 2, 3)}
        assert made.absent == {"c": "unreachable", "a": "the gate said no; its dataset or model is another"}


def test_a_plan_knows_what_each_host_answers_for_and_how_long_it_takes() -> None:
    made = plan.make(
        {
            "a": holds([10] * 100, "a", standing=frozenset(range(20)), speed=10.0, load=5.0),
            "b": holds([10] * 100, "b", working=frozenset(range(50, 100)), run="r"),
        },
        {},
    )
    assert made.answers_for("a") == "0-49"
    assert made.answers_for("b") == "50-99"
    assert (made.seconds("a"), made.seconds("b")) == (5.0 + 300 / 10.0, None)
    assert not made.guessed("a")


def test_what_was_never_measured_is_told_by_guess_and_dealt_as_if_nothing_were_known() -> None:
    hosts = {
        "a": holds([10] * 100, "a", guess=60.0, guessed_speed=1000.0),
        "b": holds([10] * 100, "b", guess=60.0, guessed_speed=1.0),
    }
    made = plan.make(hosts, {})
    assert [len(made.share(name)) for name in "ab"] == [50, 50]
    assert (made.seconds("a"), made.seconds("b"), made.guessed("a")) == (60.5, 560.0, True)


@pytest.mark.parametrize(
    "changes",
    [{"lengths": "x"}, {"total": 4}, {"standing": "0-3"}, {"working": "7"}, {"standing": "2-1"}, {"working": "all"}],
)
def test_a_census_that_cannot_be_understood_is_refused(changes: dict[str, Any]) -> None:
    good = CensusAnswer(total=3, lengths=ranges.pack([1, 2, 3]), standing="0-1", working="2")
    assert plan.holding(good).standing == {0, 1}
    with pytest.raises(ranges.RangeError):
        plan.holding(dataclasses.replace(good, **changes))
