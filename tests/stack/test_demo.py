"""`fab demo` from nothing but the stack: up, refused, passed, extracted, verified; and what a second look finds."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.stack.conftest import stack_python

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.stack
ROOT = Path(__file__).resolve().parents[2]
FAB = str(Path(sys.executable).parent / "fab")
SAMPLES = 64


@dataclass(frozen=True)
class Shown:
    """A demo that was shown: its cache folder, and what it said."""

    cache: Path
    said: str
    code: int

    def fab(self, *words: str) -> subprocess.CompletedProcess[str]:
        environment = {key: value for key, value in os.environ.items() if not key.startswith("FABRIC")}
        environment |= {"PRUDENT_GATE_CACHE": str(self.cache), "PRUDENT_GATE_STATE": str(self.cache / "state")}
        return subprocess.run(
            [FAB, *words],
            cwd=ROOT,
            env={**environment, "COLUMNS": "200"},
            capture_output=True,
            text=True,
            timeout=900,
            check=False,
        )


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shown]:
    cache = tmp_path_factory.mktemp("cache")
    (cache / "stack-cpu").symlink_to(Path(stack_python()).parent.parent)
    picture = cache / "picture.svg"
    done = Shown(cache, "", 0).fab("demo", "--svg", str(picture))
    yield Shown(cache, re.sub(r"\x1b\[[0-9;]*m", "", done.stderr), done.returncode)
    Shown(cache, "", 0).fab("demo.down")


def test_the_gate_refuses_then_passes_and_every_sample_is_verified(shown: Shown) -> None:
    assert shown.code == 0, shown.said[-4000:]
    refused, passed = shown.said.index("FAIL at level"), shown.said.index("PASS up to level")
    started, verified = shown.said.index("started the run"), shown.said.index("verified")
    assert refused < passed < started < verified
    assert "kv_cache_specs" in shown.said[:refused]
    assert "Traceback" not in shown.said
    assert len(list((shown.cache / "demo" / "hidden_states").glob("data_*.pt"))) == SAMPLES


def test_what_is_left_can_be_asked(shown: Shown) -> None:
    status = json.loads(shown.fab("status", "--json").stdout)["hosts"]["demo"]
    assert (status["phase"], status["samples"]["done"], status["exit"]) == ("done", SAMPLES, 0)
    assert shown.fab("verify").returncode == 0
    states = {
        patch["number"]: patch["applies"] for patch in json.loads(shown.fab("patches", "--json").stdout)["patches"]
    }
    assert states["0003"]


def test_the_verdict_is_remembered(shown: Shown) -> None:
    done = shown.fab("preflight", "--report", "-")
    assert done.returncode == 0
    assert json.loads(done.stdout)["hosts"]["demo"]["cached"] is True


def test_a_damaged_output_is_found(shown: Shown) -> None:
    sample = shown.cache / "demo" / "hidden_states" / "data_7.pt"
    sample.write_bytes(sample.read_bytes()[:-1])
    done = shown.fab("verify")
    assert done.returncode == 5
    assert "data_7.pt" in done.stderr


def test_the_picture_names_no_far_server(shown: Shown) -> None:
    picture = (shown.cache / "picture.svg").read_text(encoding="utf-8")
    assert "make&#160;demo" in picture
    assert not re.findall(r"url\(|https?://(?!www\.w3\.org/)", picture.replace("url(#", "("))
