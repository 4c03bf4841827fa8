from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path, PurePosixPath

import pytest

from remote import children, schema
from remote.paths import Bundle

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
    for pid in pids.read_text().split():
        assert not alive(int(pid))


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


def test_half_an_answer_is_none(bundle: Bundle) -> None:
    with pytest.raises(children.ChildCrashed, match="ended with status 0 and no answer"):
        ask(bundle, "os.write(int(os.environ['PRUDENT_GATE_RESULT']), b'{\"schema\": 1, ')")


def alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z" and os.getpid() != pid
