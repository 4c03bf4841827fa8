from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

import pytest

from remote import children, schema
from remote.leash import ASKER_ENV
from remote.paths import Bundle

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
# A role that does what the request's `run` says, in a payload of our own making.
ROLE = """
import os, sys, time
sys.path.append({root!r})
from remote import children, schema, wire
request = wire.loads(schema.StopRequest, sys.stdin.read())
exec(request.run)
"""
ANSWER = "children.reply(schema.StopAnswer(outcome='stopped', message={}))"


@pytest.fixture
def bundle(tmp_path: Path) -> Bundle:
    """Give a bundle whose `python -m remote ROLE` executes the request."""
    payload = tmp_path / "payload" / "remote"
    payload.mkdir(parents=True)
    (tmp_path / "overlay").mkdir()
    for source in (ROOT / "remote").glob("*.py"):
        (payload / source.name).write_bytes(source.read_bytes())
    (payload / "__main__.py").write_text(ROLE.format(root=str(tmp_path / "payload")))
    return Bundle(PurePosixPath(tmp_path))


def ask(bundle: Bundle, script: str, deadline: float = 30.0) -> schema.StopAnswer:
    job = schema.Job(
        name="j",
        engine="command",
        python=sys.executable,
        workdir=str(bundle.root),
        output="/o",
        env={"SAID": "by the job", "PYTHONPATH": "/of/the/job"},
    )
    request = schema.StopRequest(workdir="/w", run=script)
    return children.ask(
        "role", request, schema.StopAnswer, job=job, bundle=bundle, deadline=deadline, secrets={"TOKEN": "s3cret"}
    )


def test_noise_does_not_harm_the_answer(bundle: Bundle) -> None:
    answer = ask(bundle, "print('x' * 5_000_000); os.write(1, b'y'); " + ANSWER.format("'whole'") + "; print('late')")
    assert answer.message == "whole"


def test_the_child_sees_the_jobs_exact_environment(bundle: Bundle) -> None:
    told = "'|'.join([os.environ['SAID'], os.environ['TOKEN'], os.environ['PYTHONPATH'], os.environ['PATH']])"
    said, token, path, programs = ask(bundle, ANSWER.format(told)).message.split("|")
    assert (said, token) == ("by the job", "s3cret")
    assert path == f"{bundle.overlay}:{bundle.payload}:/of/the/job"
    assert programs.split(":")[0] == str(Path(sys.executable).parent)


def test_what_the_laptop_session_has_does_not_leak_in(bundle: Bundle, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STRAY", "1")
    assert ask(bundle, ANSWER.format("str('STRAY' in os.environ)")).message == "False"


def test_bytecode_is_kept_and_never_beside_the_sources(bundle: Bundle, tmp_path: Path) -> None:
    (tmp_path / "installed").mkdir()
    (tmp_path / "installed" / "costly.py").write_text("COST = 22\n")
    installed = str(tmp_path / "installed")
    assert (
        ask(bundle, f"sys.path.append({installed!r}); import costly; " + ANSWER.format("str(costly.COST)")).message
        == "22"
    )
    assert [path.name for path in (tmp_path / "installed").iterdir()] == ["costly.py"]
    kept = Path(bundle.root) / "cache" / "pycache"
    assert [path.name.partition(".")[0] for path in kept.rglob("costly.*.pyc")] == ["costly"]


@pytest.mark.parametrize(
    ("script", "code"),
    [
        ("raise RuntimeError('the reason')", 1),
        ("sys.stderr.write('the reason'); sys.stderr.flush(); os._exit(7)", 7),
        ("sys.stderr.write('the reason'); sys.stderr.flush(); os.kill(os.getpid(), 11)", -11),
    ],
)
def test_a_crash_is_reported_whole(bundle: Bundle, script: str, code: int) -> None:
    with pytest.raises(children.ChildCrashed) as caught:
        ask(bundle, script)
    assert caught.value.code == code
    assert "the reason" in caught.value.output


def test_a_silent_child_is_ended_at_the_deadline_with_all_that_it_started(bundle: Bundle, tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    script = (
        "import subprocess; p = subprocess.Popen(['sleep', '60']);"
        f"open({str(pids)!r}, 'w').write(f'{{os.getpid()}} {{p.pid}}'); time.sleep(60)"
    )
    with pytest.raises(children.ChildCrashed) as caught:
        ask(bundle, script, deadline=10.0)
    assert caught.value.code is None
    gone(pids)


def test_a_child_that_nobody_waits_for_is_ended(bundle: Bundle, tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    script = f"open({str(pids)!r}, 'w').write(f'{{os.getpid()}}\\n'); time.sleep(60)"
    asker = (
        "from pathlib import Path; from tests.payload.test_children import Bundle, ask;"
        f"ask(Bundle(Path({str(bundle.root)!r})), {script!r})"
    )
    with subprocess.Popen([sys.executable, "-c", asker], cwd=ROOT, stderr=subprocess.PIPE) as waiting:
        until = time.monotonic() + 50
        while not (pids.exists() and pids.read_text().endswith("\n")):
            assert time.monotonic() < until
            time.sleep(0.05)
        assert waiting.stderr is not None
        waiting.stderr.close()  # as when the SSH session breaks off
        assert waiting.wait(50) != 0
    assert not alive(int(pids.read_text()))


def test_a_child_whose_asker_was_killed_ends_with_all_that_it_started(bundle: Bundle, tmp_path: Path) -> None:
    pids, tidied = tmp_path / "pids", tmp_path / "tidied"
    script = (
        "import subprocess; from remote import leash; p = subprocess.Popen(['sleep', '600']);"
        f"leash.hold(lambda: [open({str(tidied)!r}, 'w').close(), 1 / 0]);"
        f"open({str(pids)!r}, 'w').write(f'{{os.getpid()}} {{p.pid}}\\n'); time.sleep(600)"
    )
    asker = (
        "from pathlib import Path; from tests.payload.test_children import Bundle, ask;"
        f"ask(Bundle(Path({str(bundle.root)!r})), {script!r}, deadline=600.0)"
    )
    with subprocess.Popen([sys.executable, "-c", asker], cwd=ROOT) as waiting:
        until = time.monotonic() + 50
        while not (pids.exists() and pids.read_text().endswith("\n")):
            assert time.monotonic() < until
            time.sleep(0.05)
        waiting.kill()
    gone(pids)
    assert tidied.exists()


def test_the_shared_memory_of_a_child_that_is_ended_goes_with_it(bundle: Bundle, tmp_path: Path) -> None:
    told = tmp_path / "told"
    script = (
        "from multiprocessing.shared_memory import SharedMemory; made = SharedMemory(create=True, size=8192);"
        f"open({str(told)!r}, 'w').write(made.name); time.sleep(600)"
    )
    with pytest.raises(children.ChildCrashed):
        ask(bundle, script, deadline=20.0)
    assert not Path("/dev/shm", told.read_text()).exists()


def test_the_semaphores_of_its_workers_go_with_it(bundle: Bundle, tmp_path: Path) -> None:
    """What a worker has made, its parent has never mapped, and the tracker that would remove it is killed too."""
    told = tmp_path / "told"
    worker = (
        "import multiprocessing, time; made = multiprocessing.get_context('spawn').Lock();"
        f"open({str(told)!r}, 'w').write(made._semlock.name); time.sleep(600)"
    )
    script = f"import subprocess; subprocess.Popen([sys.executable, '-c', {worker!r}]); time.sleep(600)"
    with pytest.raises(children.ChildCrashed):
        ask(bundle, script, deadline=20.0)
    name = told.read_text().lstrip("/")
    assert not Path("/dev/shm", f"sem.{name}").exists()


def test_half_an_answer_is_none(bundle: Bundle) -> None:
    with pytest.raises(children.ChildCrashed, match="ended with status 0 and no answer"):
        ask(bundle, "os.write(int(os.environ['PRUDENT_GATE_RESULT']), b'{\"schema\": 1, ')")


def gone(pids: Path) -> None:
    """Wait until they have ended: what is killed takes a moment on a busy machine."""
    until = time.monotonic() + 50
    while any(alive(int(pid)) for pid in pids.read_text().split()):
        assert time.monotonic() < until
        time.sleep(0.05)


def alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z" and os.getpid() != pid


def all_of(bundle: Bundle, script: str, deadline: float = 30.0) -> Iterator[schema.StopAnswer]:
    job = schema.Job(name="j", engine="command", python=sys.executable, workdir=str(bundle.root), output="/o")
    request = schema.StopRequest(workdir="/w", run=script)
    return children.answers("role", request, schema.StopAnswer, job=job, bundle=bundle, deadline=deadline)


SAY = "children.reply(schema.StopAnswer(outcome='stopped', message={!r}), last=False); "


def test_answers_come_one_by_one_while_the_child_goes_on(bundle: Bundle, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    wait = f"[time.sleep(0.01) for _ in iter(lambda: os.path.exists({str(gate)!r}), True)]; "
    found = all_of(bundle, SAY.format("one") + wait + SAY.format("two") + "children.end()")
    assert next(found).message == "one"
    gate.touch()
    assert [each.message for each in found] == ["two"]


def test_a_child_that_breaks_off_between_two_answers_has_crashed(bundle: Bundle) -> None:
    found = all_of(bundle, SAY.format("one") + "sys.stderr.write('the reason'); sys.stderr.flush(); os._exit(7)")
    assert next(found).message == "one"
    with pytest.raises(children.ChildCrashed) as caught:
        next(found)
    assert (caught.value.code, "the reason" in caught.value.output) == (7, True)


def test_whoever_listens_no_more_ends_the_child(bundle: Bundle) -> None:
    found = all_of(bundle, SAY.format("one").replace("'one'", "str(os.getpid())") + "time.sleep(60)")
    pid = int(next(found).message)
    found.close()  # type: ignore[attr-defined]
    assert not alive(pid)


def test_a_child_that_says_nothing_more_in_time_is_ended(bundle: Bundle) -> None:
    found = all_of(bundle, SAY.format("one") + "time.sleep(60)", deadline=10.0)
    assert next(found).message == "one"
    with pytest.raises(children.ChildCrashed) as caught:
        next(found)
    assert caught.value.code is None


@pytest.mark.parametrize("role", ["probe-child", "verify-child", "census-child"])
def test_every_role_is_on_a_leash(role: str) -> None:
    """The question never ends, as a verification of terabytes may not; killed is who asked it."""
    asker = (
        "import os, subprocess, sys;"
        f"p = subprocess.Popen([sys.executable, '-m', 'remote', {role!r}], start_new_session=True,"
        f" env={{**os.environ, '{ASKER_ENV}': str(os.getpid()), '{children.RESULT_ENV}': '2'}});"
        "print(p.pid, flush=True); p.wait()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", asker], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as waiting:  # fmt: skip
        assert waiting.stdout is not None
        pid = int(waiting.stdout.readline())
        until = time.monotonic() + 50
        while not threads(pid) > 1:  # the leash is a thread
            assert time.monotonic() < until
            time.sleep(0.05)
        waiting.kill()
        waiting.wait()
        while alive(pid):
            assert time.monotonic() < until
            time.sleep(0.05)


def threads(pid: int) -> int:
    return len(list(Path(f"/proc/{pid}/task").iterdir()))
