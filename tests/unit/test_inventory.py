"""The inventory: what a good file gives, and what a bad one is told."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from local.errors import UsageError
from local.inventory import load, seconds
from local.targets import resolve
from remote.schema import Pattern

if TYPE_CHECKING:
    from pathlib import Path

GOOD = """
[defaults]
user = "root"
python = "/venv/bin/python"
env = { A = "1", B = "defaults" }
secret_env = ["HF_TOKEN"]
device = "cpu"
retry = { transient = 5, start_line = "10m" }

[groups.blackwell]
port = 2200
env = { B = "group" }

[hosts.gpu01]
address = "192.0.2.11"
groups = ["blackwell"]
env = { C = 3 }

[hosts.gpu02]
address = "192.0.2.12"
user = "me"

[jobs.kimi]
engine = "speculators"
model = "/m"
dataset = "/d"
output = "/o"
layers = [2, 30]
retry = { progress_line = "1h30m" }
"""
JOB = '[jobs.kimi]\nengine = "speculators"\nmodel = "/m"\ndataset = "/d"\noutput = "/o"\n'

PATTERN = "[[jobs.kimi.retry.patterns]]\n"


def written(tmp_path: Path, text: str) -> Path:
    file = tmp_path / "inventory.toml"
    file.write_text(text, encoding="utf-8")
    return file


def test_hosts_inherit_from_defaults_and_groups_and_jobs_from_defaults(tmp_path: Path) -> None:
    inventory = load(written(tmp_path, GOOD))
    one, two = inventory.hosts["gpu01"], inventory.hosts["gpu02"]
    assert (one.user, one.port, one.python) == ("root", 2200, "/venv/bin/python")
    assert one.env == {"A": "1", "B": "group", "C": 3}
    assert (two.user, two.port, two.env["B"]) == ("me", None, "defaults")
    assert two.secret_env == ("HF_TOKEN",)
    job = inventory.jobs["kimi"]
    assert job.device == "cpu"
    assert job.layers == (2, 30)
    assert job.retry is not None
    assert (job.retry.transient, job.retry.start_line, job.retry.progress_line) == (5, "10m", "1h30m")
    assert inventory.groups == {"blackwell": ("gpu01",)}


@pytest.mark.parametrize(
    ("text", "place", "words", "remedy"),
    [
        ("[hosts.a]\nadress = '192.0.2.1'", "hosts.a", "unknown key 'adress'", "Did you mean 'address'?"),
        ("[host.a]\n", "host", "unknown key 'host'", "Did you mean 'hosts'?"),
        ("[defaults]\nmodle = '/m'", "defaults", "unknown key 'modle'", "Did you mean 'model'?"),
        ("hosts = 3", "hosts", "expected a table, found a whole number (3)", "[hosts]"),
        ("[hosts]\na = 'x'", "hosts.a", "expected a table, found text", ""),
        ("[hosts.a]\nport = 0", "hosts.a.port", "of at least 1, found a whole number (0)", ""),
        ("[hosts.a]\nport = 65536", "hosts.a.port", "of at most 65535", ""),
        ("[hosts.a]\nport = '22'", "hosts.a.port", "expected a whole number, found text ('22')", ""),
        ("[hosts.a]\nport = true", "hosts.a.port", "expected a whole number, found true or false", ""),
        ("[hosts.a]\nhost_key = 'strct'", "hosts.a.host_key", "one of accept-new, strict", "Did you mean 'strict'?"),
        ("[hosts.a]\nenv = { A = true }", "hosts.a.env.A", "expected text or a number", ""),
        ("[hosts.a]\nenv = { 'A-B' = '1' }", "hosts.a.env", "'A-B' is not the name", ""),
        ("[hosts.a]\nsecret_env = ['A=1']", "hosts.a.secret_env[0]", "'A=1' is not the name", "names"),
        ("[hosts.a]\ngroups = 'x'", "hosts.a.groups", "expected a list, found text", ""),
        ("[hosts.a]\nconnect_timeout = 0", "hosts.a.connect_timeout", "nothing connects in no time", ""),
        ("[hosts.a]\nusd_per_hour = inf", "hosts.a.usd_per_hour", "of at most 1000000.0, found a number (inf)", ""),
        ("[hosts.a]\ngroups = ['b', 'a,b']", "hosts.a.groups[1]", "'a,b' is not the name of a group", ""),
        ("[hosts.a]\nuser = 2020-01-01", "hosts.a.user", "expected text, found a date", ""),
        ("[hosts.a]\nconnect_timeout = '10 parsecs'", "hosts.a.connect_timeout", "expected a duration", "10m"),
        ("[hosts.'a b']\n", "hosts.'a b'", "a name is", ""),
        ("[hosts.'-oProxyCommand=x']\n", "hosts.'-oProxyCommand=x'", "a name is", ""),
        ("[hosts.a]\ngroups = ['a']", "hosts.a", "is the name of a group and of a host", ""),
        ("[hosts.a]\ngroups = ['big']\n[groups.bog]", "groups.bog", "no host is in this group", "Did you mean 'big'?"),
        ("[jobs.k]\nmodel = '/m'", "jobs.k", "the key 'engine' is missing", "speculators"),
        ("[jobs.k]\nengine = 'speculator'", "jobs.k.engine", "one of command, speculators", "'speculators'"),
        ("[jobs.k]\nengine = 'speculators'", "jobs.k", "needs the key 'model'", ""),
        ("[jobs.k]\nengine = 'command'\noutput = '/o'", "jobs.k", "needs the key 'command'", ""),
        (JOB + "command = ['true']", "jobs.kimi.command", "is for engine 'command' only", ""),
        (JOB + "layers = [2, -1]", "jobs.kimi.layers[1]", "of at least 0, found a whole number (-1)", ""),
        (JOB + "layers = [2, 2]", "jobs.kimi.layers", "names a layer twice", ""),
        (JOB + "tensor_parallel = 0", "jobs.kimi.tensor_parallel", "of at least 1", ""),
        (JOB + f"batch_size = 1{'0' * 30}", "jobs.kimi.batch_size", "of at most 2147483647", ""),
        (JOB + "memory_fraction = 0", "jobs.kimi.memory_fraction", "expected a number above 0", ""),
        (JOB + "memory_fraction = 1.5", "jobs.kimi.memory_fraction", "of at most 1", ""),
        (JOB + "progress = '('", "jobs.kimi.progress", "is not a regular expression", ""),
        (JOB + "progress = 'sample [0-9]+'", "jobs.kimi.progress", "needs a group", "(?P<done>"),
        (JOB + "retry = { start_line = 'soon' }", "jobs.kimi.retry.start_line", "expected a duration", ""),
        (JOB + "retry = { transients = 1 }", "jobs.kimi.retry", "unknown key 'transients'", "'transient'"),
        (JOB + "retry = { hang = 'wait' }", "jobs.kimi.retry.hang", "one of report, restart", ""),
        (JOB + "retry = { max_failed_samples = -1 }", "jobs.kimi.retry.max_failed_samples", "of at least 0", ""),
        (JOB + "keep_log_mb = 0", "jobs.kimi.keep_log_mb", "of at least 1", ""),
        (JOB + PATTERN + "match = '('\nkind = 'fatal'", "jobs.kimi.retry.patterns[0].match",
         "is not a regular expression", ""),
        (JOB + PATTERN + "match = 'x'\nkind = 'fatl'", "jobs.kimi.retry.patterns[0].kind",
         "one of fatal, node-fatal, transient", "'fatal'"),
        (JOB + PATTERN + "match = 'x'", "jobs.kimi.retry.patterns[0]", "the key 'kind' is missing", ""),
        (JOB + PATTERN + "match = ''\nkind = 'fatal'", "jobs.kimi.retry.patterns[0].match", "of at least 1", ""),
        (JOB + PATTERN + "match = 'x'\nkind = 'fatal'\ncuase = 'y'", "jobs.kimi.retry.patterns[0]",
         "unknown key 'cuase'", "'cause'"),
        (JOB + "[jobs.kimi.gate]\nmodule = ['x']", "jobs.kimi.gate", "unknown key 'module'", "'modules'"),
        (JOB + "[jobs.kimi.gate]\nmodules = ['a.b', 'a b']", "jobs.kimi.gate.modules[1]", "'a b' is not the name", ""),
        (JOB + "[jobs.kimi.gate]\nsymbols = ['a.b']", "jobs.kimi.gate.symbols[0]", "'a.b' is not the name", "module:"),
        (JOB + "[jobs.kimi.gate]\nsymbols = ['a:b:c']", "jobs.kimi.gate.symbols[0]", "'a:b:c' is not the name", ""),
        (JOB + "[jobs.kimi.gate]\nconstants = { B = 1 }", "jobs.kimi.gate.constants", "'B' is not the name", ""),
        (JOB + "[jobs.kimi.gate]\nthin = 'no'", "jobs.kimi.gate.thin", "expected", ""),
    ],
)  # fmt: skip
def test_a_mistake_is_told_with_file_path_and_remedy(
    tmp_path: Path, text: str, place: str, words: str, remedy: str
) -> None:
    file = written(tmp_path, text)
    with pytest.raises(UsageError) as caught:
        load(file)
    assert caught.value.exit_code == 2
    assert caught.value.where in {f"{file}: {place}", f"{file}: the file"}
    assert words in caught.value.message
    assert caught.value.remedy
    assert remedy in caught.value.remedy


def test_what_lies_too_deep_is_no_fault_of_ours(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="too deep within each other"):
        load(written(tmp_path, "a = " + "[" * 5000 + "]" * 5000))


def test_a_syntax_error_names_the_line(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="line 3"):
        load(written(tmp_path, "[defaults]\nuser = 'x'\nport = = 3\n"))


def test_a_file_that_is_absent_or_no_text_is_told(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"absent\.toml does not exist"):
        load(tmp_path / "absent.toml")
    with pytest.raises(UsageError, match="cannot be read"):
        load(tmp_path)
    binary = tmp_path / "binary.toml"
    binary.write_bytes(b"\xff\xfe")
    with pytest.raises(UsageError, match="not UTF-8"):
        load(binary)


@pytest.mark.parametrize(
    ("text", "value"),
    [(90, 90.0), (0.5, 0.5), ("90s", 90.0), ("10m", 600.0), ("1h30m", 5400.0), ("2d", 172800.0), ("500ms", 0.5),
     ("1.5h", 5400.0), ("", None), ("m", None), ("10", None), ("-5m", None), ("10 minutes", None), (-1, None),
     (float("inf"), None), (float("nan"), None), (10**400, None), ("9" * 400 + "h", None), ("99999999999h", None)],
)  # fmt: skip
def test_durations(text: float | str, value: float | None) -> None:
    assert seconds(text) == value


def test_a_byte_order_mark_and_line_ends_of_windows_are_no_mistake(tmp_path: Path) -> None:
    file = tmp_path / "windows.toml"
    file.write_bytes(b"\xef\xbb\xbf[hosts.a]\r\nport = 22\r\n")
    assert load(file).hosts["a"].port == 22


def test_a_folder_is_no_inventory(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="Is a directory") as caught:
        load(tmp_path)
    assert caught.value.remedy == "Name a file."


def test_patterns_of_the_job_come_before_those_of_the_defaults(tmp_path: Path) -> None:
    text = "[[defaults.retry.patterns]]\nmatch = 'a'\nkind = 'fatal'\n" + JOB + PATTERN
    inventory = load(written(tmp_path, text + "match = 'b'\nkind = 'transient'\nadvice = 'Wait.'\n[hosts.h]\n"))
    (target,) = resolve(inventory, "h", "kimi")
    assert target.job.retry.patterns == (
        Pattern(match="b", kind="transient", advice="Wait."), Pattern(match="a", kind="fatal"),
    )  # fmt: skip


def test_what_a_job_says_of_failures_and_its_log_reaches_the_host(tmp_path: Path) -> None:
    said = JOB + "keep_log_mb = 5\nretry = { hang = 'report', max_failed_samples = 7 }\n[hosts.h]\n"
    (target,) = resolve(load(written(tmp_path, said)), "h", "kimi")
    retry = target.job.retry
    assert (retry.hang, retry.max_failed_samples, retry.patterns, target.job.keep_log_mb) == ("report", 7, (), 5)
    (target,) = resolve(load(written(tmp_path, JOB + "[hosts.h]\n")), "h", "kimi")
    assert (target.job.retry.hang, target.job.retry.max_failed_samples) == ("restart", 100)
