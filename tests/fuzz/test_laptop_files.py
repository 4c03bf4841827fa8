"""What a user writes: the inventory, the words of `-H`, patches; and what the laptop's own folders hold."""

from __future__ import annotations

import os
import tomllib
from pathlib import Path
from typing import Any

import pytest

from local import inventory, memory, series, surface, targets
from local.errors import UsageError
from local.patches import SERIES, apply
from remote import wire
from tests.fuzz import toml_text
from tests.fuzz.budget import fuzzed
from tests.fuzz.strange import cut, damaged, words

ROOT = Path(__file__).resolve().parents[2]
INVENTORIES = [path.read_bytes() for path in sorted((ROOT / "inventories").glob("*.toml"))]
RICH: dict[str, Any] = {
    "defaults": {
        "user": "root",
        "workdir": "~/w",
        "env": {"A": "b", "N": 1},
        "secret_env": ["TOKEN"],
        "retry": {"backoff": "5s"},
    },
    "groups": {"all": {"identity_file": "~/.ssh/key", "connect_timeout": "5s"}},
    "hosts": {
        "one": {
            "address": "192.0.2.1",
            "port": 22,
            "user": "me",
            "jump": "a@b:22,c",
            "ssh": "alias",
            "ssh_config": "none",
            "host_key": "strict",
            "python": "/p",
            "gpus": 8,
            "usd_per_hour": 1.5,
            "groups": ["all"],
            "env": {"X": "y"},
        }
    },
    "jobs": {
        "job": {
            "engine": "command",
            "model": "/m",
            "dataset": "/d",
            "output": "/o",
            "layers": [1, 2],
            "tensor_parallel": 1,
            "max_model_len": 8,
            "batch_size": 2,
            "device": "cpu",
            "memory_fraction": 0.5,
            "python": "python3",
            "command": ["a", "b"],
            "progress": "x (?P<done>\\d+)",
            "keep_log_mb": 3,
            "env": {"K": "v"},
            "secret_env": ["S"],
            "retry": {
                "transient": 1,
                "start_line": "1m",
                "hang": "report",
                "max_failed_samples": 1,
                "patterns": [{"match": "a.*b", "kind": "fatal", "cause": "c", "advice": "d"}],
            },
            "gate": {"modules": ["a.b"], "symbols": ["a:b"], "constants": {"a:B": 1}, "thin": True},
        }
    },
}
DOCUMENTS = [RICH, *(tomllib.loads(data.decode()) for data in INVENTORIES)]
PATCHES = [path.read_bytes() for path in sorted(SERIES.glob("*/*.patch"))]


def _load(file: Path) -> None:
    """Load an inventory and resolve all that it names: it is whole, or the error says where."""
    try:
        known = inventory.load(file)
        for job in known.jobs or [None]:
            for target in targets.resolve(known, None, job, needs_job=False):
                wire.dumps(target.job)
    except UsageError as error:
        assert error.message
        assert "\n" not in error.message.strip()


@fuzzed(1500, cut(*INVENTORIES))
def test_inventory_bytes(folder: Path, data: bytes) -> None:
    file = folder / "hosts.toml"
    file.write_bytes(data)
    _load(file)


@fuzzed(2000, damaged(*DOCUMENTS))
def test_inventory_values(folder: Path, document: Any) -> None:
    file = folder / "hosts.toml"
    file.write_text(toml_text.text(document if isinstance(document, dict) else {"hosts": document}), "utf-8")
    _load(file)


@fuzzed(800, words)
def test_words_of_the_host_option(folder: Path, word: str) -> None:
    del folder
    known = inventory.Inventory(file=Path("x"), defaults=inventory.Settings(), hosts={}, jobs={}, groups={})
    try:
        found = targets.resolve(known, word, None, needs_job=False)
    except UsageError as error:
        assert error.message
    else:
        assert all(not target.ssh.address.startswith("-") for target in found)
        assert all(not set(target.ssh.address) & set("$`;&|<>'\"\\ \n\0") for target in found)


@fuzzed(1200, cut(*PATCHES))
def test_patch_files(folder: Path, data: bytes) -> None:
    file = folder / "0001-x.patch"
    file.write_bytes(data)
    try:
        patch = series.load(file)
    except UsageError as error:
        assert str(file) in str(error)
        return
    assert all(not name.startswith("/") and ".." not in name.split("/") for name in patch.files)
    apply([patch], dict.fromkeys(patch.files, "a\nb\n"), versions={})


HINT = b'{"home": "/h", "workdir": "/w", "python": "p", "job": "j", "payload": "p", "bundle": "b", "texts": {}}'
KEPT = b'{"fingerprint": "00", "python": "3.11", "versions": {"a": "1"}}'


@fuzzed(600, cut(HINT, KEPT))
def test_hints_of_passed_gates(folder: Path, data: bytes) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PRUDENT_GATE_CACHE", str(folder))
        memory._path("h", "j", ()).write_bytes(data)
        hint = memory.find("h", "j")
        assert hint is None or isinstance(hint.texts, dict)
        surface._memory("h", "j").write_bytes(data)
        with pytest.raises(UsageError, match="no sources"):
            surface.remembered("h", "j")
    assert os.environ.get("PRUDENT_GATE_CACHE") != str(folder)
