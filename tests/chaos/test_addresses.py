"""The laptop changes its address, or the host does, while a run is followed: the same command sees it to its end."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from remote.host import processes
from remote.run import runs
from tests.chaos import networks
from tests.chaos.networks import NAME, PORT, Network, needs_namespaces

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

LINES = 400
# Numbered lines for as long as nobody says `go`, and some after.
SCRIPT = """i=0
while [ $i -lt {lines} ]; do
    i=$((i + 1)); echo "line $i grüße"
    [ -e '{go}' ] || sleep 0.1
done"""
NOTICED = 60.0  # seconds that silence may last until it is told, on a busy machine; 15 are promised

pytestmark = needs_namespaces


@pytest.fixture
def network(tmp_path: Path) -> Iterator[Network]:
    with networks.cable(tmp_path) as made:
        script = SCRIPT.format(lines=LINES, go=tmp_path / "go")
        networks.write_inventory(tmp_path, address=NAME, port=PORT, identity=tmp_path / "user_key", script=script)
        yield made
    for run in runs.folders(str(tmp_path / "workdir")):
        assert processes.of_run(run) == []


@pytest.mark.parametrize("who", ["laptop", "host"])
def test_a_change_of_address_is_noticed_and_the_run_followed_to_its_end(network: Network, who: str) -> None:
    prefix = ("nsenter", "-t", str(network.laptop), "-n", "-m", "--wd=" + str(networks.REPO))
    with networks.fab(network.folder, "-H", "gpu", "extract", prefix=prefix) as fab:
        fab.until("line 5 ", 4 * NOTICED)
        {"laptop": network.move_laptop, "host": network.move_host}[who]()
        fab.until("the link is lost", NOTICED)
        back = fab.until("the link is back after", NOTICED)
        assert back < NOTICED
        (network.folder / "go").touch()
        assert fab.end() == 0
        numbers = [int(number) for number in re.findall(r"line (\d+) grüße", fab.text())]
    assert numbers == list(range(1, LINES + 1))
    (run,) = runs.folders(str(network.folder / "workdir"))
    ended = runs.look(run).exit
    assert ended is not None
    assert (ended.phase, ended.attempts) == ("done", 1)
