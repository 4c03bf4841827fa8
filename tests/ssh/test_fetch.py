"""Samples brought over real SSH connections that do not last; whole `fab fetch`es of several hosts into one folder."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import subprocess
import sys
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

from local.errors import GaveUp
from local.fetching import place as places
from local.fetching import plan
from local.fetching.crew import Crew
from local.fetching.place import NoPlace, Place
from local.fetching.stream import Source, read_manifest
from tests import fetched, hostpython, laptop
from tests.running import Lab, until
from tests.ssh import nodes, sshd
from tests.ssh.proxy import Proxy
from tests.ssh.test_fab import FAB, ROOT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.ssh.servers import Server

MB = 1_000_000


@pytest.fixture
def lab(tmp_path: Path, sshd_server: Server, proxy: Proxy) -> Iterator[Lab]:
    """Give a host behind a proxy that can cut, stall and resume."""
    link = sshd_server.link(port=proxy.port, connect_timeout=2.0, banner_timeout=2.0, pin_file=tmp_path / "pins")
    made = Lab(tmp_path, python=sys.executable, link=link)
    yield made
    proxy.resume()
    assert not made.clean_up()


@dataclass
class Fetch:
    """One fetch of everything that the lab's output folder has; `act` is called as often as so many bytes have come."""

    lab: Lab
    root: Path
    act: Callable[[], None] = lambda: None
    every: int = 1 << 60
    parallel: int = 1
    patience: float | None = 20.0
    said: list[str] = field(default_factory=list)
    size: int = 0
    acts: int = 0
    _lock: Any = field(default_factory=threading.Lock)

    def go(self) -> Crew:
        source = Source(self.lab.host, self.lab.bundle, str(self.lab.output))
        manifest = read_manifest(source)
        assert isinstance(manifest, bytes)
        holding, place = plan.holding("here", manifest), Place(self.root)
        place.make()
        missing = set(holding.entries)
        standing = place.standing(missing, [holding], lambda _: None)
        self.crew = Crew(
            {"here": source}, [holding], place, self.parallel, self.patience,
            on_bytes=self.on_bytes, on_sample=lambda *_: None, on_link=lambda _, said: self.said.append(said),
            came=standing,
        )  # fmt: skip
        try:
            self.crew.go(missing - standing.keys())
        finally:
            place.keep_lines(self.crew.came)
        return self.crew

    def on_bytes(self, _: str, count: int) -> None:
        with self._lock:
            self.size += count
            if self.size < self.every * (self.acts + 1):
                return
            self.acts += 1
        self.act()


def got(root: Path) -> dict[int, bytes]:
    return {int(path.stem[5:]): path.read_bytes() for path in (root / "samples").glob("data_*.pt")}


def lines(root: Path) -> list[int]:
    return [json.loads(line)["index"] for line in (root / "manifest.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("parallel", [1, 3])
def test_samples_are_whole_over_cuts(lab: Lab, proxy: Proxy, tmp_path: Path, parallel: int) -> None:
    made = fetched.folder(lab.output, range(12), size=5 * MB)
    fetch = Fetch(lab, tmp_path / "to", proxy.cut, every=14 * MB, parallel=parallel)
    assert fetch.go().failed == {}
    assert fetch.acts >= 4
    assert got(tmp_path / "to") == made
    assert lines(tmp_path / "to") == list(range(12))
    assert fetch.size == 60 * MB  # not a byte twice
    assert any("is lost" in said for said in fetch.said)


def test_a_host_that_does_not_come_back_is_given_up_and_what_came_is_kept(
    lab: Lab, proxy: Proxy, tmp_path: Path
) -> None:
    made = fetched.folder(lab.output, range(4), size=4 * MB)

    def vanish() -> None:
        proxy.stall()
        proxy.cut()

    fetch = Fetch(lab, tmp_path / "to", vanish, every=6 * MB, patience=1.0)
    crew = fetch.go()
    assert isinstance(crew.shares["here"].error, GaveUp)
    assert 1 <= crew.shares["here"].came < 4
    before = fetch.size
    proxy.resume()
    second = Fetch(lab, tmp_path / "to")
    second.go()
    assert got(tmp_path / "to") == made
    assert before + second.size == 16 * MB  # gone on with, not begun anew


def test_a_part_that_is_not_what_it_should_be_is_fetched_again(lab: Lab, tmp_path: Path) -> None:
    made = fetched.folder(lab.output, [3], size=100_000)
    place = Place(tmp_path / "to")
    place.make()
    place.part(fetched.entry(3, made[3])).write_bytes(b"x" * 60_000)
    assert Fetch(lab, tmp_path / "to").go().failed == {}
    assert got(tmp_path / "to") == made


@pytest.mark.parametrize(
    ("harm", "said"),
    [
        (lambda path: path.write_bytes(b"z" * 1000), "came twice with another SHA-256"),
        (lambda path: path.write_bytes(b"short"), "is 5 bytes there, its manifest says 1000"),
        (lambda path: path.unlink(), "No such file"),
    ],
    ids=["bits", "size", "gone"],
)
def test_what_is_damaged_there_is_told_and_the_others_come(lab: Lab, tmp_path: Path, harm: Any, said: str) -> None:
    made = fetched.folder(lab.output, range(5))
    harm(lab.output / "data_2.pt")
    crew = Fetch(lab, tmp_path / "to").go()
    assert list(crew.failed) == [2]
    assert said in crew.failed[2][1]
    assert got(tmp_path / "to") == {index: data for index, data in made.items() if index != 2}
    assert list((tmp_path / "to" / "samples").glob(".*")) == []
    assert lines(tmp_path / "to") == [0, 1, 3, 4]


def test_a_full_disk_ends_the_fetch_with_nothing_half_there(
    lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = fetched.folder(lab.output, range(6), size=1 * MB)
    left = [2_500_000]
    write = os.write

    def full(descriptor: int, data: Any) -> int:
        if left[0] < len(data):
            raise OSError(28, "No space left on device")
        left[0] -= len(data)
        return write(descriptor, data)

    with monkeypatch.context() as patch:
        patch.setattr("local.fetching.arriving.os.write", full)
        with pytest.raises(NoPlace, match="No space left") as caught:
            Fetch(lab, tmp_path / "to", parallel=2).go()
    assert "goes on where it stood" in caught.value.remedy
    there = got(tmp_path / "to")
    assert there == {index: made[index] for index in there}
    assert len(there) < 6
    Fetch(lab, tmp_path / "to").go()
    assert got(tmp_path / "to") == made


def test_what_stands_is_not_fetched_again_and_what_nothing_vouches_for_is_hashed(lab: Lab, tmp_path: Path) -> None:
    made = fetched.folder(lab.output, range(4))
    Fetch(lab, tmp_path / "to").go()
    (tmp_path / "to" / "manifest.jsonl").unlink()
    (tmp_path / "to" / "samples" / "data_1.pt").write_bytes(b"q" * 1000)
    again = Fetch(lab, tmp_path / "to")
    again.go()
    assert again.size == 1000
    assert got(tmp_path / "to") == made


def test_room_is_looked_at_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = Place(tmp_path)
    place.make()
    big = fetched.entry(1, b"", size=1 << 49)
    with pytest.raises(NoPlace, match=r"512\.0 TiB are to come") as caught:
        place.make_room([big])
    assert caught.value.exit_code == 1
    monkeypatch.setattr(places, "SPARE", 0)
    assert place.make_room([fetched.entry(1, b"abc")]) == 3


@pytest.mark.parametrize("name", ["samples", "SAMPLES", "manifest.jsonl", "..", "a/b", "[::1]:22", ".hidden", "x\0y"])
def test_a_host_of_any_name_has_a_folder_of_its_own(tmp_path: Path, name: str) -> None:
    path = Place(tmp_path).keep_manifest(name, b"{}\n")
    assert path.parent.parent == tmp_path
    assert path.parent.name.lower() not in {"samples", "manifest.jsonl"}
    assert path.read_bytes() == b"{}\n"


# ---- the whole command -----------------------------------------------------------------------------------------------

JOB = """
[jobs.j]
engine = "command"
device = "cpu"
command = ["sh", "-c", "echo hello"]
output = "~/out"
"""


@dataclass
class Site:
    """A laptop and its hosts."""

    folder: Path
    members: list[nodes.Member]

    def __post_init__(self) -> None:
        self.inventory = self.folder / "inventory.toml"
        self.write(*self.members)

    def write(self, *members: nodes.Member, jobs: str = JOB) -> None:
        defaults = f'[defaults]\npython = "{hostpython.python()}"\nworkdir = "~/work"\nssh_config = "none"\n'
        entries = "".join(member.entry() for member in members)
        self.inventory.write_text(defaults + entries + jobs)

    def out(self, number: int) -> Path:
        home = self.members[number].home
        assert home is not None
        return home / "out"

    def environment(self) -> dict[str, str]:
        return laptop.environment(self.folder, COLUMNS="200")

    def start(self, *words: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [FAB, *words], cwd=ROOT, env=self.environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    def fab(self, *words: str, code: int) -> tuple[str, str]:
        process = self.start(*words)
        out, err = process.communicate(timeout=120)
        assert process.returncode == code, err
        assert "Traceback" not in err
        return out, err


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    if sshd.program() is None:
        pytest.skip("no sshd here")
    with nodes.running(tmp_path / "fleet", 2) as members:
        yield Site(tmp_path, members)


def test_many_hosts_come_into_one_folder(site: Site) -> None:
    made = fetched.folder(site.out(0), range(6), size=20_000)
    made.update(fetched.folder(site.out(1), range(4, 9), size=20_000))
    site.write(*site.members, nodes.dead(site.members[0].identity))
    to = site.folder / "to"
    out, err = site.fab("fetch", "--samples", "--to", str(to), "--json", code=4)
    assert got(to) == made
    assert lines(to) == list(range(9))
    assert (to / "node01" / "manifest.jsonl").read_bytes() == (site.out(1) / "manifest.jsonl").read_bytes()
    told = json.loads(out)
    assert told["samples"] == {"wanted": 9, "present": 0, "fetched": 9, "bytes": 180_000, "failed": []}
    assert sum(told["hosts"][name]["fetched"] for name in ("node00", "node01")) == 9
    assert told["hosts"]["dead"]["manifest"] is None
    assert told["hosts"]["dead"]["error"]
    assert "9 samples in" in err


def test_manifests_alone_without_the_option(site: Site) -> None:
    fetched.folder(site.out(0), range(3))
    to = site.folder / "to"
    _, err = site.fab("fetch", "--to", str(to), code=0)
    assert "no manifest in" in err
    assert [path.name for path in to.iterdir()] == ["node00"]


def test_two_models_are_told_and_not_mixed(site: Site) -> None:
    fetched.folder(site.out(0), range(3))
    fetched.folder(site.out(1), range(3, 6), model="e" * 16)
    to = site.folder / "to"
    _, err = site.fab("fetch", "--samples", "--to", str(to), code=5)
    assert "2 models: mmmmmmmmmmmm (3 on node00), eeeeeeeeeeee (3 on node01)" in err
    assert got(to) == {}
    site.fab("-H", "node01", "fetch", "--samples", "--to", str(to), code=0)
    _, err = site.fab("-H", "node00", "fetch", "--samples", "--to", str(to), code=5)
    assert f"3 on {to}" in err  # what stands on the laptop counts as well
    assert sorted(got(to)) == [3, 4, 5]


def test_a_sample_that_one_host_has_damaged_comes_from_the_other(site: Site) -> None:
    made = fetched.folder(site.out(0), range(4))
    fetched.folder(site.out(1), range(4))
    for path in site.out(0).glob("data_*.pt"):
        path.write_bytes(b"z" * 1000)
    to = site.folder / "to"
    site.fab("fetch", "--samples", "--to", str(to), code=0)
    assert got(to) == made


def test_what_had_come_of_an_older_state_of_a_sample_goes_when_it_stands(site: Site) -> None:
    old = fetched.folder(site.out(0), range(2), seed=1)
    to = site.folder / "to"
    place = Place(to)
    place.make()
    entries = plan.holding("node00", (site.out(0) / "manifest.jsonl").read_bytes()).entries
    for index, data in old.items():
        place.part(entries[index]).write_bytes(data[:100])
    made = fetched.folder(site.out(0), [0], seed=2)  # computed again meanwhile
    site.fab("-H", "node00", "fetch", "--samples", "--to", str(to), "--indices", "0", code=0)
    assert got(to) == made
    assert [path.name for path in place.samples.glob(".*")] == [place.part(entries[1]).name]


def test_what_was_asked_for_and_is_nowhere_is_told(site: Site) -> None:
    made = fetched.folder(site.out(0), range(6))
    to = site.folder / "to"
    _, err = site.fab("-H", "node00", "fetch", "--samples", "--to", str(to), "--indices", "1-2,5-9", code=5)
    assert "4 of the samples that were asked for are on no host" in err
    assert got(to) == {index: made[index] for index in (1, 2, 5)}


def test_nowhere_any_output_is_a_failure_that_says_so(site: Site) -> None:
    _, err = site.fab("fetch", "--samples", "--to", str(site.folder / "to"), code=5)
    assert err.count("no manifest in") == 2
    assert "no host has a manifest, by which outputs are fetched" in err


def test_a_run_says_where_its_outputs_are(site: Site) -> None:
    site.fab("-H", "node00", "extract", code=0)
    site.write(*site.members, jobs=JOB + JOB.replace("jobs.j", "jobs.k").replace("~/out", "~/elsewhere"))
    made = fetched.folder(site.out(0), range(2))
    found = json.loads(site.fab("-H", "node00", "status", "--json", code=0)[0])["hosts"]["node00"]["run"]
    for words in ((), ("--run", found)):
        to = site.folder / f"to{len(words)}"
        site.fab("-H", "node00", "fetch", "--samples", "--to", str(to), *words, code=0)
        assert got(to) == made
    site.fab("-H", "node00", "fetch", "--run", "20200101-000000-abcd", "--to", str(site.folder / "x"), code=2)


def test_two_fetches_do_not_fill_one_folder_at_once(site: Site) -> None:
    made = fetched.folder(site.out(0), range(3))
    to = site.folder / "to"
    place = Place(to)
    place.make()
    with place.held():
        _, err = site.fab("-H", "node00", "fetch", "--samples", "--to", str(to), code=75)
        assert f"another fetch is filling {to}/samples" in err
        site.fab("-H", "node00", "fetch", "--to", str(to), code=0)  # manifests are put there whole
    assert got(to) == {}
    site.fab("-H", "node00", "fetch", "--samples", "--to", str(to), code=0)
    assert got(to) == made


def test_ctrl_c_leaves_what_came_and_the_next_fetch_goes_on(site: Site) -> None:
    made = fetched.folder(site.out(0), range(8), size=4 * MB)
    to = site.folder / "to"
    with Proxy(site.members[0].port, delay=0.01) as proxy:  # 6 MB/s: five seconds in all
        site.write(dataclasses.replace(site.members[0], port=proxy.port))
        process = site.start("fetch", "--samples", "--to", str(to), "--parallel", "1")
        until(lambda: len(list((to / "samples").glob("*data_*"))) >= 2)  # they take their places together
        proxy.stall()
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
        proxy.resume()
    assert process.returncode == 130, err
    assert "goes on where it stood" in err
    there = got(to)
    assert there == {index: made[index] for index in there}
    assert lines(to) == sorted(there)
    site.write(*site.members)
    out, _ = site.fab("-H", "node00", "fetch", "--samples", "--to", str(to), "--json", code=0)
    assert got(to) == made
    told = json.loads(out)["samples"]
    assert told["present"] == len(there)
    assert told["bytes"] <= (8 - len(there)) * 4 * MB
