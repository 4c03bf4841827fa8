"""Rooms that came last: hooks, ids and locks of output folders, what a host expects, cleans and recalls, torn logs."""

from __future__ import annotations

import copy
import importlib.util
import json
import marshal
from pathlib import Path, PurePosixPath
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest
from hypothesis import strategies as st

from local import answers, gate, inventory, saved, targets
from local.errors import UsageError
from local.hooks import table
from local.host import Reached
from local.masks import MaskedLog
from local.tasks import cleaning
from remote import bytecode, locks, masks, wire
from remote.paths import Output, Run
from remote.prompts import census_child
from remote.run import batch, logfile, occasions
from remote.schema import CleanAnswer, ExpectAnswer, RecallAnswer, VerdictAnswer
from remote.schema.story import Rubbish
from tests.fuzz import toml_text
from tests.fuzz.budget import fuzzed
from tests.fuzz.strange import anything, cut, damaged, values, words
from tests.fuzz.test_answers import REACHED, VERDICT, plain, shown
from tests.fuzz.test_laptop_files import RICH
from tests.unit.test_levels import CUDA, facts, job

if TYPE_CHECKING:
    from local import memory

HOOKS: dict[str, Any] = copy.deepcopy(RICH)
HOOKS["defaults"]["forward_agent"] = False
HOOKS["hosts"]["one"]["forward_agent"] = True
HOOKS["jobs"]["job"]["hooks"] = {
    "on_done": {"laptop": "echo done"},
    "on_failed": [{"host": "echo failed"}, {"notify": "CHAT"}],
    "on_hang": [{"host": "true"}],
    "on_unreachable": {"notify": "CHAT"},
    "unreachable_after": "10m",
}
OWN_HOOKS = {**HOOKS, "hosts": {"one": {}}, "groups": {}}


@fuzzed(900, damaged(HOOKS, OWN_HOOKS))
def test_tables_of_hooks(folder: Path, document: Any) -> None:
    file = folder / "hosts.toml"
    file.write_text(toml_text.text(document if isinstance(document, dict) else {"hosts": document}), encoding="utf-8")
    try:
        known = inventory.load(file)
        for name in known.jobs or [None]:
            for target in targets.resolve(known, None, name, needs_job=False):
                wire.dumps(table.on_host(target.hooks))
                for occasion in table.OCCASIONS:
                    assert all(not hook.host for hook in table.on_laptop(target.hooks, occasion))
    except UsageError as error:
        assert error.message


@fuzzed(400, st.dictionaries(st.sampled_from(["run", "cause", "code", "root_line", "phase"]), anything | words))
def test_variables_of_hooks(folder: Path, told: dict[str, Any]) -> None:
    del folder
    for name, value in occasions.variables("on_done", **told).items():
        assert "\0" not in f"{name}{value}", "no environment takes it"
        assert len(value) <= occasions.LONGEST


@fuzzed(300, cut(b"0123456789abcdef0123456789abcdef", b"{}\n"))
def test_ids_of_output_folders(folder: Path, data: bytes) -> None:
    output = Output(PurePosixPath(folder))
    Path(output.identity).write_bytes(data)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(census_child, "WRITING", 1)
        patch.setattr(census_child.time, "sleep", lambda _: None)
        found = census_child.identity(output)
        assert census_child.ID.fullmatch(found)
        assert census_child.identity(output) == found
    assert {path.name for path in folder.iterdir()} == {Path(output.identity).name}


LOCK = {"run": "20260101-000000-abcd", "workdir": "/w"}
NOTES = {"lock": LOCK, "log_start": {"start": 4096}, "batch": {"size": 3}}


@fuzzed(
    500,
    st.one_of(*(damaged(note) for note in NOTES.values()), values)
    | cut(*(json.dumps(n).encode() for n in NOTES.values())),
)
def test_locks_and_small_notes(folder: Path, value: Any) -> None:
    data = value if isinstance(value, bytes) else json.dumps(value).encode()
    output, run = Output(PurePosixPath(folder)), Run(PurePosixPath(folder))
    for path in (output.lock, run.log_start, run.batch):
        Path(path).write_bytes(data)
    if (holder := locks.holder(output)) is not None:
        assert isinstance(holder.run, str)
        assert isinstance(holder.workdir, str)
    assert logfile.start(run) >= 0
    assert 1 <= batch.size(run, job()) <= max(1, job().batch_size)


@fuzzed(400, damaged(wire.encode(ExpectAnswer(load=1080.0, assumed=False))))
def test_expectations(folder: Path, document: Any) -> None:
    del folder
    try:
        answer = answers.loads(ExpectAnswer, json.dumps(document), "expect")
    except wire.WireError:
        return
    made = saved.reckon(3, load=answer.load, assumed=answer.assumed, gpus=8, usd_per_hour=36.0)
    console = plain()
    console.print(str(made))
    shown(console)


CLEANED = CleanAnswer(
    items=(Rubbish(kind="run", path="/w/runs/a", size=3, why="old", age=86400.0, gone=True, trouble="t"),),
    kept={"run": 5}, spared=("it is there",), trouble=None,
)  # fmt: skip


@fuzzed(500, damaged(wire.encode(CLEANED)))
def test_what_can_be_cleaned(folder: Path, document: Any) -> None:
    del folder
    try:
        answer = answers.loads(CleanAnswer, json.dumps(document), "clean")
    except wire.WireError:
        return
    console = plain()
    console.print(cleaning._table([cleaning._row("host", item) for item in answer.items]))
    shown(console)


RECALLED = wire.encode(RecallAnswer(facts=facts(**CUDA), known=VerdictAnswer(fingerprint="0" * 64, verdict=VERDICT)))
HINT = cast("memory.Hint", SimpleNamespace(texts={"0" * 64: "x = 1\n"}))


@fuzzed(500, damaged(RECALLED) | cut(json.dumps(RECALLED).encode()))
def test_what_a_host_recalls(folder: Path, document: Any) -> None:
    del folder
    text = document.decode("utf-8", "replace") if isinstance(document, bytes) else json.dumps(document)
    reached = answers.decode(Reached, {**REACHED, "recalled": text}, "reach")
    answer = gate._recalled(reached, HINT)
    assert answer is None or isinstance(answer, RecallAnswer)


CODE = (
    importlib.util.MAGIC_NUMBER
    + bytes(12)
    + marshal.dumps(compile("def f(a):\n    return [a, 'x', 1.5]\n", "m", "exec"))
)


@fuzzed(300, st.tuples(st.integers(0, len(CODE)), words))
def test_half_written_bytecode(folder: Path, drawn: tuple[int, str]) -> None:
    """A full disk cuts it off; it does not bend it: what is bent, marshal itself does not promise to survive."""
    length, word = drawn
    place = Path(bytecode.home(str(folder)))
    place.mkdir(parents=True, exist_ok=True)
    (place / "m.pyc").write_bytes(CODE[:length])
    (place / "other.pyc").write_bytes(bytes(16) + answers.whole(word).encode())  # of another Python: nobody's to judge
    bytecode.drop_damaged(str(folder))
    assert (place / "m.pyc").exists() is (length == len(CODE))
    assert (place / "other.pyc").exists()


SECRETS = ("hf_abcdefghij", "line one of it\nline two of it\r\n\x1b[31mthree", "éàü\x9b31m-pässwörd", "\\u00e9\"'")


@fuzzed(700, st.tuples(cut(*(secret.encode() for secret in SECRETS)), st.integers(0, 40), words))
def test_logs_with_torn_secrets(folder: Path, drawn: tuple[bytes, int, str]) -> None:
    del folder
    data, at, word = drawn
    secrets = (*SECRETS, answers.whole(word))
    kept: list[bytes] = []
    log = MaskedLog(secrets, kept.append, torn=True)
    log.feed(data[:at])
    log.skip()
    log.feed(data[at:])
    log.finish()
    assert not any(secret.encode() in b"".join(kept) for secret in SECRETS)
    text = data.decode("utf-8", "replace")
    assert not any(secret in masks.mask_torn(text, secrets, start=True, end=True) for secret in SECRETS)
    assert 0 <= masks.between(data, secrets, at) <= at
