"""The plan for people and as a document."""

from __future__ import annotations

import io
import json

from rich.console import Console

from local import plan, plantable
from local.plan import Holding


def made() -> plan.Plan:
    lengths = [10] * 100
    return plan.make(
        {
            "one": Holding(
                lengths=lengths, dataset="d", model="m", folder="1", speed=10.0, load=60.0, usd_per_hour=36.0,
                standing=frozenset(range(10)),
            ),
            "two": Holding(lengths=lengths, dataset="d", model="m", folder="2"),
            "three": Holding(
                lengths=lengths, dataset="d", model="m", folder="3", run="20261130-200000-abcd",
                working=frozenset(range(90, 100)),
            ),
        },
        {"dead": "no answer \x1b[31m[red]"},
    )  # fmt: skip


def shown() -> str:
    console = Console(file=io.StringIO(), width=200)
    console.print(plantable.table(made()))
    return console.file.getvalue()  # type: ignore[attr-defined, no-any-return]


def test_each_host_has_a_row_with_what_is_known() -> None:
    rows = {line.split()[0]: line.split() for line in shown().splitlines() if line.strip()}
    assert rows["one"][1:9] == ["10", "40", "400", "50%", "1", "min", "40", "s"]  # 60 s of load, 40 of work
    assert rows["one"][9:] == ["$1.00", "10-49"]
    assert rows["two"][1:] == ["0", "40", "400", "50%", "–", "–", "50-89"]
    assert "the run 20261130-200000-abcd works on 10 samples" in shown()


def test_what_is_not_known_is_said() -> None:
    assert "takes no part: no answer" in shown()
    assert "\x1b" not in shown()
    assert "100 samples: 10 stand, 10 are being worked on, 80 are dealt now" in shown()
    said = plantable.words(made())
    assert said.endswith("What dead may hold is not known: it is dealt to the others. About $1.00 as far as is known")


def test_the_document_has_the_shards() -> None:
    document = json.loads(json.dumps(plantable.document(made(), "states")))
    assert (document["schema"], document["job"], document["total"], document["dealt"]) == (1, "states", 100, 80)
    assert {name: host["shard"] for name, host in document["hosts"].items()} == {
        "one": "10-49", "two": "50-89", "three": "",
    }  # fmt: skip
    assert (document["hosts"]["one"]["seconds"], document["hosts"]["one"]["usd"]) == (100.0, 1.0)
    assert document["hosts"]["one"]["guessed"] is False
    assert document["hosts"]["three"]["working"] == "90-99"
    assert document["absent"] == {"dead": "no answer \x1b[31m[red]"}


def test_what_nobody_can_do_is_left_and_said() -> None:
    busy = Holding(lengths=[1, 1], dataset="d", model="m", folder="f", busy="another job")
    assert "2 are left: no host is free or has room for them" in plantable.words(plan.make({"a": busy}, {}))
