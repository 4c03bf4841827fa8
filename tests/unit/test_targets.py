"""From -H and the inventory to targets."""

from __future__ import annotations

from pathlib import Path

import pytest

from local import folders
from local.errors import UsageError
from local.inventory import Inventory, load
from local.targets import parse, resolve

TEXT = """
[defaults]
user = "root"
workdir = "/work"
env = { A = "defaults", B = "defaults" }
secret_env = ["HF_TOKEN"]

[hosts.gpu01]
address = "192.0.2.11"
python = "/venv/bin/python"
identity_file = "~/key"
gpus = 8
usd_per_hour = 36.0
groups = ["all", "big"]

[hosts.gpu02]
address = "192.0.2.12"
port = 2200
host_key = "strict"
groups = ["all"]

[hosts.tunnel]
address = "127.0.0.1"
port = 5022

[hosts.other-tunnel]
address = "127.0.0.1"
port = 5023

[jobs.kimi]
engine = "speculators"
model = "/m"
dataset = "${PRUDENT_GATE_CACHE}/d.jsonl"
output = "/o"
env = { B = "job" }
retry = { transient = 1, progress_line = "15m" }
"""


@pytest.fixture
def inventory(tmp_path: Path) -> Inventory:
    file = tmp_path / "inventory.toml"
    file.write_text(TEXT, encoding="utf-8")
    return load(file)


def names(inventory: Inventory, hosts: str | None) -> list[str]:
    return [target.name for target in resolve(inventory, hosts, None)]


@pytest.mark.parametrize(
    ("hosts", "expected"),
    [
        (None, ["gpu01", "gpu02", "tunnel", "other-tunnel"]),
        ("gpu02", ["gpu02"]),
        ("all", ["gpu01", "gpu02"]),
        ("gpu02,all", ["gpu02", "gpu01"]),
        ("gpu01,root@192.0.2.11", ["gpu01"]),
        ("192.0.2.12", ["gpu02"]),
        ("127.0.0.1:5023", ["other-tunnel"]),
        ("elsewhere", ["elsewhere"]),
        ("me@elsewhere:2222, gpu01,", ["elsewhere:2222", "gpu01"]),
        ("gpu01,gpu01:2222", ["gpu01", "gpu01:2222"]),
    ],
)
def test_words_of_the_command_line_mean_hosts(inventory: Inventory, hosts: str | None, expected: list[str]) -> None:
    assert names(inventory, hosts) == expected


def test_a_target_has_everything(inventory: Inventory) -> None:
    (target,) = resolve(inventory, "gpu01", "kimi")
    assert (target.ssh.address, target.ssh.user, target.ssh.port) == ("192.0.2.11", "root", None)
    assert target.ssh.identity_file == str(Path("~/key").expanduser())
    assert target.ssh.host_key == "accept-new"
    assert (target.gpus, target.usd_per_hour) == (8, 36.0)
    job = target.job
    assert (job.name, job.engine, job.python, job.workdir) == ("kimi", "speculators", "/venv/bin/python", "/work")
    assert job.env == {"A": "defaults", "B": "job"}
    assert job.secret_env == ("HF_TOKEN",)
    assert job.dataset == f"{folders.cache()}/d.jsonl"
    assert (job.retry.transient, job.retry.progress_line, job.retry.start_line) == (1, 900.0, 600.0)


def test_an_ad_hoc_word_overrides_user_and_port_of_its_entry(inventory: Inventory) -> None:
    (target,) = resolve(inventory, "me@192.0.2.12:22", None)
    assert (target.name, target.ssh.user, target.ssh.port, target.ssh.host_key) == ("gpu02", "me", 22, "strict")
    (stranger,) = resolve(inventory, "me@[2001:db8::1]:2222", None)
    assert (stranger.ssh.address, stranger.ssh.port, stranger.ssh.user) == ("2001:db8::1", 2222, "me")
    assert stranger.job.workdir == "/work"


def test_an_address_that_several_share_must_be_named(inventory: Inventory) -> None:
    with pytest.raises(UsageError, match=r"address of tunnel, other-tunnel"):
        resolve(inventory, "127.0.0.1", None)


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("host", (None, "host", None)),
        ("user@host:22", ("user", "host", 22)),
        ("a@b.example@host", ("a@b.example", "host", None)),
        ("2001:db8::1", (None, "2001:db8::1", None)),
        ("[::1]:22", (None, "::1", 22)),
        ("[::1]", (None, "::1", None)),
    ],
)
def test_ad_hoc_words(word: str, expected: tuple[str | None, str, int | None]) -> None:
    assert parse(word) == expected


@pytest.mark.parametrize(
    "word",
    ["", "@host", "host:", "host:0", "host:65536", "host:ssh", "host:²", "-oProxyCommand=x", "me@-x", "-l@host", "a b",
     "ho\nst", "ho\0st", "$(true)", "a;b", "[::1", "[::1]x", "user@", "ssh://host", "host/path", "'host'"],
)  # fmt: skip
def test_words_that_are_no_host_are_refused(word: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse(word)
    assert caught.value.remedy


def test_a_file_without_hosts_needs_them_named(tmp_path: Path) -> None:
    file = tmp_path / "empty.toml"
    file.write_text("", encoding="utf-8")
    with pytest.raises(UsageError, match="has no hosts"):
        resolve(load(file), None, None)
    with pytest.raises(UsageError, match="names no host"):
        resolve(load(file), ",", None, needs_job=False)
    with pytest.raises(UsageError, match="has no job"):
        resolve(load(file), "host", None)
    (target,) = resolve(load(file), "host", None, needs_job=False)
    assert (target.job.python, target.job.workdir) == ("python3", "~/.prudent-gate")


def test_of_several_jobs_one_must_be_chosen(tmp_path: Path) -> None:
    file = tmp_path / "two.toml"
    body = 'engine = "command"\ncommand = ["true"]\noutput = "/o"\n'
    file.write_text(f"[hosts.a]\n[jobs.one]\n{body}[jobs.two]\n{body}", encoding="utf-8")
    inventory = load(file)
    with pytest.raises(UsageError, match=r"2 jobs: one, two") as caught:
        resolve(inventory, None, None)
    assert "--job" in caught.value.remedy
    with pytest.raises(UsageError, match="no job 'tow'") as caught:
        resolve(inventory, None, "tow")
    assert "'two'" in caught.value.remedy
    (target,) = resolve(inventory, None, "two")
    assert (target.job.name, target.job.command) == ("two", ("true",))


def test_a_variable_that_is_not_set_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NOWHERE", raising=False)
    file = tmp_path / "variable.toml"
    file.write_text('[hosts.a]\nidentity_file = "${NOWHERE}/key"\n', encoding="utf-8")
    with pytest.raises(UsageError, match=r"hosts\.a\.identity_file") as caught:
        resolve(load(file), None, None, needs_job=False)
    assert "export NOWHERE" in caught.value.remedy


def test_an_ssh_config_that_is_absent_is_told(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text(f'[hosts.a]\nssh_config = "{tmp_path}/absent"\n[hosts.b]\nssh_config = "none"\n', encoding="utf-8")
    with pytest.raises(UsageError, match="absent does not exist") as caught:
        resolve(load(file), "a", None, needs_job=False)
    assert "demo.up" in caught.value.remedy
    (target,) = resolve(load(file), "b", None, needs_job=False)
    assert target.ssh.ssh_config == "none"


@pytest.mark.parametrize("key", ["python", "workdir", "output", "model", "dataset"])
@pytest.mark.parametrize("path", ["./there", "../there", "~other/there", "/a\\u0000b", "/a\\nb"])
def test_a_path_that_means_nothing_on_the_host_is_told(tmp_path: Path, key: str, path: str) -> None:
    values = {"python": "python3", "workdir": "~/w", "output": "/o", "model": "owner/name", "dataset": "/d", key: path}
    host, job = [
        "\n".join(f'{name} = "{values[name]}"' for name in names)
        for names in (("python", "workdir"), ("output", "model", "dataset"))
    ]
    file = tmp_path / "paths.toml"
    file.write_text(f'[hosts.a]\n{host}\n[jobs.j]\nengine = "speculators"\n{job}\n', encoding="utf-8")
    with pytest.raises(UsageError) as caught:
        resolve(load(file), None, None)
    assert caught.value.where.endswith(f".{key}")
    assert caught.value.remedy


def test_a_relative_folder_is_no_path_on_the_host(tmp_path: Path) -> None:
    file = tmp_path / "relative.toml"
    file.write_text('[hosts.a]\nworkdir = "work"\n', encoding="utf-8")
    with pytest.raises(UsageError, match="no whole path"):
        resolve(load(file), None, None, needs_job=False)


@pytest.mark.parametrize(
    ("word", "meant"), [("gpu03", "gpu0"), ("GPU01", "gpu01"), ("bigg", "big"), ("other.example", ""), ("gpu01", "")]
)
def test_a_word_near_a_name_brings_the_name_to_mind(inventory: Inventory, word: str, meant: str) -> None:
    (target,) = resolve(inventory, word, None)
    assert bool(target.hint) == bool(meant)
    assert meant in target.hint


def test_an_address_that_holds_a_port_is_told(tmp_path: Path) -> None:
    file = tmp_path / "inventory.toml"
    file.write_text("[hosts.a]\naddress = 'gpu01:2222'\n")
    with pytest.raises(UsageError, match="address 'gpu01:2222' holds a port") as caught:
        resolve(load(file), None, None, needs_job=False)
    assert caught.value.remedy == 'Write address = "gpu01" and port = 2222.'
    file.write_text("[hosts.a]\naddress = '2001:db8::1'\n[hosts.b]\naddress = '::1'\n")
    assert [target.ssh.address for target in resolve(load(file), None, None, needs_job=False)] == ["2001:db8::1", "::1"]
