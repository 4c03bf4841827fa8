from __future__ import annotations

import json
import os
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator, ValidationError

from local import errors, report
from local.gate import GateOutcome
from remote.schema import Check, Finding, Verdict

SCHEMA = json.loads((Path(__file__).parents[2] / "docs" / "report.schema.json").read_text("utf-8"))
FINDING = Finding(rule="patch-broken", message="no", file="p/x.py", line=3, column=0, end_column=4, text="here")
PASSED = (Check(id="reach", status="pass", seconds=0.2, facts={"python": "3.12.3"}), Check(id="host", status="warn"))
FAILED = (*PASSED, Check(id="patch", status="fail", seconds=0.1, findings=(FINDING,)))


def outcome(checks: tuple[Check, ...] = PASSED, verdict: str = "pass", **changes: Any) -> GateOutcome:
    made = Verdict(
        fingerprint="ab", bundle="cd", verdict=verdict, level=checks[-1].id, decided=1.0, checks=checks, changed=("x",)
    )
    return GateOutcome(**{"verdict": made, "bundle": "cd", "cached": False, "facts": None, "complete": True} | changes)


def valid(document: Any) -> bool:
    Draft202012Validator(SCHEMA).validate(document)
    return True


def test_the_schema_is_one() -> None:
    Draft202012Validator.check_schema(SCHEMA)


def test_every_kind_of_host_is_in_the_report() -> None:
    document = report.document(
        {
            "good": outcome(),
            "bad": outcome(FAILED, "fail", bundle=None),
            "away": errors.Unreachable("no route", remedy="Look at the cable."),
            "key": errors.HostKeyError("changed"),
            "crash": errors.PayloadCrashed("code 1"),
        }
    )
    assert valid(document)
    hosts = document["hosts"]
    assert {name: host["verdict"] for name, host in hosts.items()} == {
        "good": "pass", "bad": "fail", "away": "unreachable", "key": "unreachable", "crash": "error",
    }  # fmt: skip
    assert hosts["bad"]["level"] == "patch"
    assert hosts["bad"]["checks"][2]["findings"][0]["file"] == "p/x.py"
    assert hosts["away"]["error"] == {
        "kind": "Unreachable", "message": "no route", "remedy": "Look at the cable.", "exit_code": 4,
    }  # fmt: skip
    assert hosts["key"]["error"]["exit_code"] == 6
    assert hosts["good"]["changed"] == ["x"]


@pytest.mark.parametrize("kind", report.AWAY)
def test_a_link_that_is_away_is_never_a_failure(kind: type[errors.PrudentError]) -> None:
    assert report.document({"h": kind("gone")})["hosts"]["h"]["verdict"] == "unreachable"


def test_remembered_checks_take_no_time() -> None:
    cached = Check(id="import", status="pass", seconds=20.0, facts={"cached": True})
    assert report.document({"h": outcome((*PASSED, cached))})["hosts"]["h"]["seconds"] == 0.2


def test_no_hosts_are_a_report_too() -> None:
    assert valid(report.document({}))


@pytest.mark.parametrize(
    "change",
    [
        {"verdict": "maybe"},
        {"verdict": "fail"},
        {"verdict": "unreachable"},
        {"checks": []},
        {"level": None},
        {"surprise": 1},
        {"error": {"kind": "x", "message": "m", "remedy": "", "exit_code": 1}},
    ],
)
def test_the_schema_refuses_what_contradicts_itself(change: dict[str, Any]) -> None:
    document = report.document({"h": outcome()})
    document["hosts"]["h"] |= change
    with pytest.raises(ValidationError):
        valid(document)


def test_the_schema_knows_every_field_of_checks_and_findings() -> None:
    for name, cls in (("check", Check), ("finding", Finding)):
        names = {field.name for field in fields(cls)}
        assert names == set(SCHEMA["$defs"][name]["properties"]) == set(SCHEMA["$defs"][name]["required"])


def test_the_page_tells_every_key_of_the_schema() -> None:
    page = (Path(__file__).parents[2] / "docs" / "report.md").read_text("utf-8")
    for name in ("host", "check", "finding", "error"):
        for key in SCHEMA["$defs"][name]["properties"]:
            assert f"`{key}`" in page or f'"{key}"' in page


def test_a_file_is_written_whole(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    path.write_text("old")
    report.write(path, report.document({"h": outcome()}))
    assert valid(json.loads(path.read_text("utf-8")))
    assert [file.name for file in tmp_path.iterdir()] == ["report.json"]


def test_nothing_is_left_of_a_report_that_cannot_be_written(tmp_path: Path) -> None:
    folder = tmp_path / "taken"
    folder.mkdir()
    for path in (tmp_path / "nowhere" / "report.json", folder):
        with pytest.raises(errors.UsageError, match="cannot be written") as error:
            report.write(path, report.document({}))
        assert error.value.where == str(path)
    assert [file.name for file in tmp_path.iterdir()] == ["taken"]


def test_a_dash_is_standard_output_and_host_text_cannot_harm_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    hostile = Check(id="host", status="pass", facts={"\x1b]0;x\x07": "\u202e\x9b2J\ud800", "inf": float("inf")})
    report.write("-", report.document({"\x1b[2J": outcome((hostile,))}))
    said = capsys.readouterr().out
    assert said.isascii()
    assert all(line.isprintable() for line in said.splitlines())
    document = json.loads(said)
    assert valid(document)
    assert document["hosts"]["\x1b[2J"]["checks"][0]["facts"]["inf"] is None


@pytest.mark.parametrize("name", ["", ".", "absent/report.json", "file/report.json"])
def test_where_no_report_can_be_written_is_told_beforehand(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("file").touch()
    with pytest.raises(errors.UsageError, match="cannot be written"):
        report.writable(name)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize("name", ["-", "report.json"])
def test_where_a_report_can_be_written_nothing_is_touched_beforehand(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("report.json").write_text("of last time", encoding="utf-8")
    report.writable(name)
    assert Path("report.json").read_text(encoding="utf-8") == "of last time"
    assert len(list(tmp_path.iterdir())) == 1


def test_what_is_no_file_is_written_to_and_stays(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    report.writable(pipe)
    reading = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    report.write(pipe, report.document({}))
    assert json.loads(os.read(reading, 1 << 16))["schema"] == 1
    os.close(reading)
    assert pipe.is_fifo()


def test_a_link_stays_and_its_file_is_renewed(tmp_path: Path) -> None:
    (tmp_path / "link.json").symlink_to("file.json")
    report.writable(tmp_path / "link.json")
    report.write(tmp_path / "link.json", report.document({}))
    assert (tmp_path / "link.json").is_symlink()
    assert json.loads((tmp_path / "file.json").read_text())["schema"] == 1
