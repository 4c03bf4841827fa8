"""Folders that no job may write to are refused when the file is read."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from local import whereabouts
from local.errors import UsageError
from local.inventory import load
from local.targets import resolve
from remote.schema import Job

if TYPE_CHECKING:
    from pathlib import Path


def judged(
    output: str, workdir: str = "~/.prudent-gate", user: str | None = None, python: str = "/data/env/bin/python3"
) -> str:
    """Give what is said of a job, "" where nothing is."""
    job = Job(
        name="j",
        engine="speculators",
        python=python,
        workdir=workdir,
        model="/data/model",
        dataset="/d",
        output=output,
    )
    try:
        whereabouts.check(job, user=user, of_job="inv.toml: jobs.j", of_host="inv.toml: hosts.h")
    except UsageError as error:
        assert error.remedy
        assert error.where
        return f"{error.where}: {error.message}"
    return ""


@pytest.mark.parametrize(
    "path",
    [
        "/", "//", "/.", "/data/..", "/root", "/root/", "//root", "/etc", "/etc/cron.d", "/home", "/home/me",
        "/home/me/", "~", "~/", "~/.", "~/x/..", "/tmp", "/var", "/var/tmp", "/usr", "/usr/local", "/usr/lib/python3",
        "/bin", "/proc/self",
        "/dev", "/dev/shm", "/dev/sda", "/sys", "/boot/x", "/lib64", "/opt", "/mnt", "/media", "/srv", "/run",
    ],
)  # fmt: skip
@pytest.mark.parametrize("user", [None, "root", "me"])
def test_folders_of_many_are_neither_output_nor_workdir(path: str, user: str | None) -> None:
    assert "jobs.j.output: the output" in judged(path, user=user)
    assert "hosts.h.workdir: the workdir" in judged("/data/out", path, user=user)


@pytest.mark.parametrize(
    ("path", "relied"),
    [
        ("~/.ssh", "~/.ssh"), ("~/.ssh/", "~/.ssh"), ("~/x/../.ssh/out", "~/.ssh"), ("/root/.ssh", "~/.ssh"),
        ("/home/me/.ssh/keys", "~/.ssh"), ("~/.gnupg", "~/.gnupg"), ("~/.config", "~/.config"),
        ("~/.cache", "~/.cache"), ("/home/me/.cache/", "~/.cache"), ("~/.local/share", "~/.local/share"),
        ("~/.local/bin", "~/.local/bin"), ("~/.local/lib/python3.12/site-packages", "~/.local/lib"),
        ("~/.cache/huggingface/hub", "~/.cache/huggingface"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("user", [None, "root", "me"])
def test_what_others_rely_on_is_neither_output_nor_workdir(path: str, relied: str, user: str | None) -> None:
    for said in (judged(path, user=user), judged("/data/out", path, user)):
        assert f"is in a folder that others rely on ({relied})" in said


@pytest.mark.parametrize(
    ("path", "python", "refused"),
    [
        ("/root/ml-env", "/root/ml-env/bin/python3", True),
        ("/root/ml-env/", "~/ml-env/bin/python3", True),
        ("/root/ml-env/lib/python3.12/site-packages/out", "/root/ml-env/bin/python3", True),
        ("/root/ml-env/bin", "/root/ml-env/bin/python3", True),
        ("/root/ml-env-of-mine", "/root/ml-env/bin/python3", False),
        ("/data/out", "/data/bin/python3", False),
        ("/data", "/data/bin/python3", True),
        ("/srv/out", "/bin/python3", False),
        ("/srv/bin", "python3", False),
        ("/srv/x", "/srv/python3", False),
    ],
)
def test_the_environment_of_the_job_is_not_written_to(path: str, python: str, *, refused: bool) -> None:
    for said in (judged(path, user="root", python=python), judged("/elsewhere", path, "root", python)):
        assert ("is in the environment of" in said) == refused


@pytest.mark.parametrize(
    ("output", "workdir", "user"),
    [
        ("~/.cache/out", "~/.local/share/gate", None),
        ("/root/.config/gate", "/root/.ssh-of-mine", "root"),
        ("/data/.ssh", "/data/.cache", None),
        ("/data/out", "~/.prudent-gate", None),
        ("/o", "/w", None),
        ("~/out", "~/work", "root"),
        ("/root/out", "/root/.prudent-gate", "root"),
        ("/home/me/out", "/home/me/work", "me"),
        ("/dev/shm/out", "/tmp/work", None),
        ("/usr/local/share/out", "/var/lib/gate", None),
        ("/w/outputs", "/w", None),
        ("/w/runs-of-mine", "/w", None),
        ("/etcetera", "/binary", None),
        ("/data/model/states", "/w", None),
    ],
)
def test_folders_of_its_own_are_what_a_job_writes_to(output: str, workdir: str, user: str | None) -> None:
    assert not judged(output, workdir, user)


@pytest.mark.parametrize(
    ("output", "workdir", "user", "said"),
    [
        ("/w", "/w", None, "is in the workdir"),
        ("/w/", "/w/x/..", None, "is in the workdir"),
        ("/w/bundles", "/w", None, "is in the workdir"),
        ("/w/runs/a/out", "/w/", None, "is in the workdir"),
        ("/w/cache/x", "/w", None, "is in the workdir"),
        ("~/.prudent-gate/verdicts", "~/.prudent-gate", None, "is in the workdir"),
        ("/root/.prudent-gate/runs/x", "~/.prudent-gate", "root", "is in the workdir"),
        ("/home/me/w/runs", "~/w", "me", "is in the workdir"),
        ("/data", "/data/work", None, "workdir '/data/work' is in the output"),
        ("~/out", "~/out/.gate", None, "is in the output"),
        ("/data/model/", "/w", None, "is the model itself"),
        ("/d", "/w", None, "is the dataset itself"),
    ],
)
def test_folders_within_each_other_are_told(output: str, workdir: str, user: str | None, said: str) -> None:
    assert said in judged(output, workdir, user)


@given(st.text("/.~ab", max_size=12), st.text("/.~ab", max_size=12))
def test_any_two_paths_are_judged(output: str, workdir: str) -> None:
    if judged(output, workdir or "/w") or not output:
        return
    assert whereabouts._whole(output, None) not in {"/", "~", whereabouts._whole(workdir or "/w", None)}


@pytest.mark.parametrize("output", ["/", "/root", "/etc", "~/", "${ROOMY}"])
def test_the_file_is_refused_before_a_host_is_reached(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, output: str
) -> None:
    monkeypatch.setenv("ROOMY", "/root")
    file = tmp_path / "inventory.toml"
    file.write_text(f"[hosts.a]\n[jobs.one]\nengine = 'command'\ncommand = ['true']\noutput = '{output}'\n")
    with pytest.raises(UsageError, match="the output '") as caught:
        resolve(load(file), None, None)
    assert caught.value.where == f"{file}: jobs.one.output"
