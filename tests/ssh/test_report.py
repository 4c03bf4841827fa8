"""`report`, `runs`, `clean` and what the gate saved, from end to end over a real sshd; the job is a script."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.ssh.test_fab import Laptop

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.ssh.servers import Server

SCRIPT = "echo $TEST_TOKEN; echo '<script>alert(1)</script>'; echo 'done 3/3'"


@pytest.fixture
def laptop(tmp_path: Path, sshd_server: Server) -> Iterator[Laptop]:
    made = Laptop(tmp_path, sshd_server)
    made.write(SCRIPT, defaults="usd_per_hour = 36.0")
    yield made
    if (tmp_path / "workdir" / "runs").exists():
        made.fab("-H", "gpu", "stop")


def runs(laptop: Laptop) -> list[str]:
    return sorted(path.name for path in (laptop.folder / "workdir" / "runs").iterdir())


def test_a_report_of_the_latest_run_and_of_one_by_its_id(laptop: Laptop) -> None:
    assert laptop.fab("-H", "gpu", "extract").returncode == 0
    assert laptop.fab("-H", "gpu", "extract").returncode == 0
    first, second = runs(laptop)
    page, text = laptop.folder / "page.html", laptop.folder / "page.md"
    done = laptop.fab("-H", "gpu", "report", first, "--html", str(page), "--markdown", str(text))
    assert done.returncode == 0, done.stderr
    assert f"the report is in {page}" in done.stderr
    assert done.stdout == ""
    written = page.read_text()
    assert written.startswith("<!DOCTYPE html>")
    assert first in written
    assert second not in written
    assert first in text.read_text()
    assert "very_secret" not in written + text.read_text()
    assert laptop.fab("-H", "gpu", "report", "--run", first, "--html", "-").stdout.count(first) >= 2
    latest = laptop.fab("-H", "gpu", "report", "--markdown", "-")
    assert second in latest.stdout
    assert "the report is in" not in latest.stderr


def test_without_a_name_the_page_is_named_after_its_run(laptop: Laptop) -> None:
    assert laptop.fab("-H", "gpu", "extract").returncode == 0
    here = laptop.folder / "here"
    here.mkdir()
    done = laptop.shell(f'cd "{here}" && "$FAB" -r "{Path(__file__).parents[2]}" -H gpu report')
    assert done.returncode == 0, done.stderr
    assert [path.name for path in here.iterdir()] == [f"{runs(laptop)[0]}.html"]


def test_hosts_that_cannot_be_asked_are_told_and_the_others_have_their_page(laptop: Laptop) -> None:
    assert laptop.fab("-H", "gpu", "extract").returncode == 0
    page = laptop.folder / "page.html"
    done = laptop.fab("-H", "gpu,dead", "report", "--html", str(page))
    assert done.returncode == 4
    assert "dead" in done.stderr
    assert runs(laptop)[0] in page.read_text()


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("--run", "20260101-000000-abcd"), 2, "no run '20260101-000000-abcd'"),
        (("20260101-000000-abcd",), 2, "no run '20260101-000000-abcd'"),
        ((), 2, "no run in"),
        (("--html", "/nowhere/at/all.html"), 2, "the report cannot be written"),
    ],
)
def test_what_cannot_be_reported_is_told(laptop: Laptop, words: tuple[str, ...], code: int, said: str) -> None:
    done = laptop.fab("-H", "gpu", "report", *words)
    assert done.returncode == code
    assert said in done.stderr


def test_runs_have_their_time_and_cost_and_are_a_document_too(laptop: Laptop) -> None:
    assert laptop.fab("-H", "gpu", "extract").returncode == 0
    shown = laptop.fab("-H", "gpu", "runs")
    assert "took" in shown.stdout
    assert "$" in shown.stdout
    told = json.loads(laptop.fab("-H", "gpu,dead", "runs", "--json").stdout)["hosts"]
    (run,) = told["gpu"]["runs"]
    assert (run["phase"], run["job"]) == ("done", "script")
    assert run["seconds"] >= 0
    assert run["usd"] is not None
    assert told["dead"]["error"]["kind"] == "Unreachable"


def test_the_end_of_a_run_says_what_it_cost(laptop: Laptop) -> None:
    done = laptop.fab("-H", "gpu", "extract")
    assert done.returncode == 0
    assert "s, $0.0" in done.stderr


def test_clean_shows_first_and_removes_on_request(laptop: Laptop) -> None:
    for _ in range(3):
        assert laptop.fab("-H", "gpu", "extract").returncode == 0
    laptop.output.mkdir(exist_ok=True)
    (laptop.output / "data_0.pt").write_bytes(b"precious")
    bundles = laptop.folder / "workdir" / "bundles"
    (bundles / ("0" * 64)).mkdir()
    os.utime(bundles / ("0" * 64), (time.time() - 9000,) * 2)
    before = runs(laptop)
    shown = laptop.fab("-H", "gpu", "clean", "--keep", "1")
    assert shown.returncode == 0, shown.stderr
    assert [name in shown.stdout for name in before] == [True, True, False]
    assert "can go" in shown.stderr
    assert "To remove them: fab -H gpu clean --keep 1 --yes" in shown.stderr
    assert runs(laptop) == before
    done = laptop.fab("-H", "gpu", "clean", "--keep", "1", "--yes")
    assert done.returncode == 0
    assert "removed 3 things" in done.stderr
    assert runs(laptop) == before[2:]
    assert not (bundles / ("0" * 64)).exists()
    assert (laptop.output / "data_0.pt").read_bytes() == b"precious"
    again = laptop.fab("-H", "gpu", "clean", "--keep", "1", "--yes", "preflight")
    assert again.returncode == 0
    assert "nothing to remove" in again.stderr


def test_clean_of_the_laptop_leaves_what_hosts_are_remembered_with(laptop: Laptop) -> None:
    cached = laptop.folder / "cache"
    for name in ("surfaces/aa", "surfaces/bb", "surfaces/hosts", "releases/vllm-1"):
        (cached / name).mkdir(parents=True)
        os.utime(cached / name, (time.time() - 9000,) * 2)
    (cached / "surfaces/hosts/1.json").write_text('{"fingerprint": "aa"}')
    shown = laptop.fab("-H", "gpu", "clean")
    assert "fab clean --laptop --yes" in shown.stderr
    assert (cached / "surfaces/bb").is_dir()
    done = laptop.fab("-H", "gpu", "clean", "--laptop", "--yes")
    assert done.returncode == 0
    assert sorted(path.name for path in (cached / "surfaces").iterdir()) == ["aa", "hosts"]
    assert not (cached / "releases/vllm-1").exists()


@pytest.mark.parametrize("keep", ["-1", "many", "", "1.5"])
def test_a_number_of_runs_that_is_none_is_refused(laptop: Laptop, keep: str) -> None:
    done = laptop.fab("-H", "gpu", "clean", f"--keep={keep}")
    assert done.returncode == 2
    assert "expected a whole number" in done.stderr
