"""The host's hooks with a real supervisor: when they run, what they are told, and what they can never do to a run."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from remote.host import processes
from remote.results import verified
from remote.run import hook_child, runs
from remote.schema import Hooks, Retry
from tests.payload import pretended
from tests.running import until

if TYPE_CHECKING:
    from remote.paths import Run
    from tests.running import Lab

TELL = 'printf "%s|" "$PRUDENT_GATE_OCCASION" "$PRUDENT_GATE_PHASE" "$PRUDENT_GATE_CAUSE" >> {}'


def launched(lab: Lab, script: str, hooks: Hooks, *, secrets: dict[str, str] | None = None, **changes: Any) -> Run:
    answer = lab.launch(lab.job(script, **changes), hooks=hooks, secrets=secrets or {})
    assert (answer.outcome, answer.message) == ("started", "")
    return lab.run(str(answer.run))


def told(run: Run, name: str = "hook") -> list[dict[str, Any]]:
    events = [json.loads(line) for line in Path(run.events).read_text().splitlines()]
    return [event for event in events if event["event"] == name]


def everything(lab: Lab, **more: str) -> Hooks:
    """Give hooks that note each occasion."""
    note = TELL.format(lab.root / "told")
    return Hooks(**{name: (more.get(name, note),) for name in ("on_done", "on_failed", "on_hang")})


def noted(lab: Lab) -> str:
    path = lab.root / "told"
    return path.read_text() if path.exists() else ""


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("exit 0", "on_done|done||"),
        ("echo 'RuntimeError: Error 802: system not yet initialized'; exit 1", "on_failed|failed|fabric-manager|"),
    ],
)
def test_each_end_has_its_hook(lab: Lab, script: str, said: str) -> None:
    run = launched(lab, script, everything(lab))
    lab.ended(run)
    assert noted(lab) == said
    (event,) = told(run)
    assert (event["occasion"], event["number"], event["code"]) == (said.partition("|")[0], 1, 0)


def test_a_stopped_run_has_none(lab: Lab) -> None:
    run = launched(lab, "echo up; sleep 60", everything(lab))
    lab.logged(run, "up")
    lab.stop(run.id)
    assert lab.ended(run).phase == "stopped"
    assert (noted(lab), told(run)) == ("", [])


def test_the_end_is_written_before_its_hooks_and_the_folder_is_free(lab: Lab) -> None:
    hooks = everything(lab, on_done="cat exit.json state.json > seen; echo started; sleep 60")
    run = launched(lab, "exit 0", hooks)
    seen = Path(run.root) / "seen"
    until(lambda: seen.exists() and "heartbeat" in seen.read_text(), "the hook")
    assert '"phase":"done"' in seen.read_text()
    second = launched(lab, "exit 0", Hooks())  # the hook still runs, and is in nobody's way
    assert lab.ended(second).phase == "done"
    assert runs.look(run).state is not None
    (sleeping,) = [one for one in processes.everybody() if one.name == "sleep" and _works_in(one.pid, run)]
    processes.send(sleeping, signal.SIGKILL)
    lab.ended(run)
    (event,) = told(run)
    assert event["code"] == 128 + signal.SIGKILL


def _works_in(pid: int, run: Run) -> bool:
    try:
        return Path(f"/proc/{pid}/cwd").readlink() == Path(run.root)
    except OSError:
        return False


def test_a_hook_that_fails_changes_nothing_and_the_next_one_runs(lab: Lab) -> None:
    run = launched(lab, "exit 0", Hooks(on_done=("echo no >&2; exit 3", TELL.format(lab.root / "told"), "kill -9 $$")))
    ended = lab.ended(run)
    assert (ended.phase, ended.code, ended.cause) == ("done", 0, None)
    assert [event["code"] for event in told(run)] == [3, 0, 137]
    assert noted(lab) == "on_done|done||"
    log = Path(run.hooks_log).read_text()
    assert "--- on_done 1, exit code 3" in log
    assert "\nno\n" in log


def test_facts_are_never_shell_text(lab: Lab) -> None:
    line = "RuntimeError: Error 802: system not yet initialized $(touch hacked) `touch hacked` '; touch hacked"
    hooks = everything(lab, on_failed='printf %s "$PRUDENT_GATE_ROOT_LINE" > line')
    run = launched(lab, f"cat <<'END'\n{line}\nEND\nexit 1", hooks)
    lab.ended(run)
    assert (Path(run.root) / "line").read_text() == line
    assert not (Path(run.root) / "hacked").exists()


def test_a_hook_knows_the_job_and_secrets_are_masked_in_its_log(lab: Lab) -> None:
    hooks = Hooks(
        on_done=('echo "$TOKEN $OWN $PRUDENT_GATE_JOB $PRUDENT_GATE_SAMPLES_DONE/$PRUDENT_GATE_SAMPLES_TOTAL"',)
    )
    run = launched(lab, "echo done 3/4", hooks, secrets={"TOKEN": "very secret"}, env={"OWN": "mine"})
    lab.ended(run)
    assert "\n*** mine job 3/4\n" in Path(run.hooks_log).read_text()
    kept = b"".join(path.read_bytes() for path in Path(run.root).iterdir() if path.is_file())
    assert b"very secret" not in kept
    assert Path(run.hooks_log).stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("hang", ["restart", "report"])
def test_a_hang_is_told_beside_the_supervision(lab: Lab, hang: str) -> None:
    script = "echo x >> ../../../count; [ $(wc -l < ../../../count) = 2 ] && exit 0; echo up; sleep 3"
    retry = Retry(transient=1, progress_line=0.5, backoff=0.05, hang=hang)
    hooks = everything(lab, on_hang=f"{TELL.format(lab.root / 'told')}; sleep 1.5; echo over >> {lab.root}/over")
    run = launched(lab, script, hooks, retry=retry)
    ended = lab.ended(run)
    assert ended.phase == "done"
    assert noted(lab).startswith("on_hang|loading|hang|") or noted(lab).startswith("on_hang|extracting|hang|")
    assert noted(lab).endswith("on_done|done||")
    assert (lab.root / "over").read_text() == "over\n"  # the end of the attempt did not end the hook
    assert {event["occasion"]: event["code"] for event in told(run)} == {"on_hang": 0, "on_done": 0}


def test_a_command_has_a_deadline_and_takes_its_group_along(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mark = tmp_path / "said"
    clock = SimpleNamespace(monotonic=lambda: float(mark.exists()), sleep=time.sleep)  # late once it has said its words
    monkeypatch.setattr(hook_child, "time", clock)
    began = time.monotonic()
    code, said = hook_child.execute(
        f"echo begun; touch {mark}; sleep 61 & sleep 62", {"PATH": "/usr/bin:/bin"}, cwd=str(tmp_path), deadline=0.5
    )
    assert (code, said) == (None, b"begun\n")
    assert time.monotonic() - began < 20


def test_a_command_ends_with_the_hook_process_however_that_was_killed(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    command = f"sleep 64 & echo $$ $! > {pids}.new; mv {pids}.new {pids}; wait"
    asked = f"from remote.run import hook_child; hook_child.execute({command!r}, {{}}, cwd='/', deadline=60.0)"
    with subprocess.Popen([sys.executable, "-c", asked], cwd=Path(__file__).parents[2]) as hook:
        until(pids.exists, "the command")
        found = [processes.read(int(pid)) for pid in pids.read_text().split()]
        hook.kill()
    assert len(found) == 2
    assert None not in found
    until(lambda: not any(one and processes.alive(one.pid, one.started) for one in found), "the end of the command")


def test_a_command_that_kills_its_own_group_has_ended_by_a_signal(tmp_path: Path) -> None:
    code, said = hook_child.execute("echo so; kill -9 0", {}, cwd=str(tmp_path), deadline=20.0)
    assert (code, said) == (137, b"so\n")


def test_what_a_command_leaves_in_the_background_is_not_waited_for(tmp_path: Path) -> None:
    code, said = hook_child.execute("sleep 63 & echo $!", {"PATH": "/usr/bin:/bin"}, cwd=str(tmp_path), deadline=20.0)
    left = processes.read(int(said))
    assert code == 0
    assert left is not None
    processes.send(left, signal.SIGKILL)


def test_a_flood_is_cut_and_a_folder_that_is_gone_is_no_fault(tmp_path: Path) -> None:
    code, said = hook_child.execute(
        "head -c 5000000 /dev/zero; pwd", {"PATH": "/usr/bin:/bin"}, cwd=str(tmp_path / "gone"), deadline=30.0
    )
    assert (code, len(said)) == (0, hook_child.KEPT)


@pytest.mark.parametrize("secret", ["abc", "", "a\nb long enough", "ü" * 6])
def test_masks(secret: str) -> None:
    found = hook_child.masked(f"<{secret}>".encode(), [secret])
    assert found == (b"<***>" if len(secret) >= 6 else f"<{secret}>".encode())


def test_a_secret_in_other_words_coloured_or_cut_off_is_masked() -> None:
    secret = 'hf_secret"word'
    said = f'json: {json.dumps(secret)} colours: hf_\x1b[1msecret\x1b[0m"word'.encode()
    assert hook_child.masked(said, [secret]) == b'json: "***" colours: ***'
    flood = b"x" * (hook_child.KEPT - 5) + b"hf_se"
    assert hook_child.masked(flood, [secret]).endswith(b"xx***")


# ---- on_done waits for the outputs to be proven ----------------------------------------------------------------------

PROMPTS = [[1, 2, 3], [4, 5], [6]]


def test_done_is_told_only_when_the_outputs_are_verified(lab: Lab) -> None:
    answer = lab.launch(pretended.job(lab, PROMPTS), hooks=everything(lab))
    run = lab.run(str(answer.run))
    ended = lab.ended(run)
    assert (ended.phase, ended.cause) == ("done", None)
    (event,) = told(run, "verified")
    assert (event["valid"], event["total"]) == (3, 3)
    assert noted(lab) == "on_done|done||"
    assert event["n"] < told(run, "ended")[0]["n"] < told(run)[0]["n"]


def test_outputs_that_are_not_whole_are_a_failure_whose_cause_is_verify(lab: Lab) -> None:
    # The attempt itself looks at no values: what somebody changes under it only verification finds.
    job = pretended.job(lab, PROMPTS)
    first = lab.run(str(lab.launch(job).run))
    lab.ended(first)
    path = lab.output / "data_1.pt"
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0xFF
    path.write_bytes(data)
    second = lab.run(str(lab.launch(job, hooks=everything(lab)).run))
    ended = lab.ended(second)
    assert (ended.phase, ended.kind, ended.cause) == ("failed", "fatal", "verify")
    assert ended.root_line == "2 of 3 samples are valid, 0 missing, 1 damaged"
    assert noted(lab) == "on_failed|failed|verify|"


def test_a_check_that_cannot_be_done_says_why(lab: Lab) -> None:
    job = pretended.job(lab, PROMPTS)
    with (lab.root / "site" / "torch.py").open("a") as file:
        file.write("\nimport sys\nif 'verify-child' in sys.argv:\n    sys.exit('libtorch.so is gone, hf_abcdefgh')\n")
    run = lab.run(str(lab.launch(job, hooks=everything(lab), secrets={"HF_TOKEN": "hf_abcdefgh"}).run))
    ended = lab.ended(run)
    assert (ended.phase, ended.cause) == ("failed", "verify")
    assert ended.root_line == "the outputs could not be verified: verify-child ended with status 1 and no answer"
    kept = verified.last(run)
    assert kept is not None
    said = kept.answer.findings[0].text or ""
    assert "libtorch.so is gone" in said
    assert "abcdefgh" not in said


def test_without_a_hook_that_waits_nothing_is_verified(lab: Lab) -> None:
    run = lab.run(str(lab.launch(pretended.job(lab, PROMPTS), hooks=Hooks(on_failed=("true",))).run))
    assert lab.ended(run).phase == "done"
    assert told(run, "verified") == []


def test_a_stop_while_outputs_are_verified_ends_that_and_tells_nobody(lab: Lab) -> None:
    job = pretended.job(lab, PROMPTS)
    with (lab.root / "site" / "torch.py").open("a") as file:
        file.write("\nimport sys, time\nif 'verify-child' in sys.argv:\n    time.sleep(60)\n")
    run = lab.run(str(lab.launch(job, hooks=everything(lab)).run))
    until(lambda: lab.state(run).phase == "verifying" and _verifying(run), "the verification")
    lab.stop(run.id)
    ended = lab.ended(run)
    assert (ended.phase, ended.left_running) == ("done", ())
    assert (noted(lab), told(run), told(run, "verified")) == ("", [], [])


def _verifying(run: Run) -> bool:
    line = b"verify-child"
    return any(line in _words(one.pid) for one in processes.started_by(_supervisor(run)))


def _supervisor(run: Run) -> int:
    state = runs.look(run).state
    assert state is not None
    return state.pid


def _words(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""
