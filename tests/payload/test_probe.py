"""The probe, whole: the payload pushed, a clean process under another interpreter, whatever the imports do."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from remote import schema
from remote.children import ChildCrashed
from remote.probe import described

if TYPE_CHECKING:
    from conftest import Stage

LIBRARY = {
    "lib/__init__.py": "",
    "lib/core.py": """
        class Config:
            def __init__(self, size, *, deep, wide=1): ...
        class Engine:
            def __init__(self, config: Config) -> None:
                self.config = config
            def run(self, tokens, limit=None) -> "Answer": ...
        class Answer:
            text: str
        def make(config, groups): ...
        """,
}
USER = {
    "user/__init__.py": "",
    "user/job.py": """
        from lib.core import Config, Engine, make

        SIZE = 16

        class Job:
            def __init__(self):
                self.engine = Engine(Config(1, deep=2))

            def go(self):
                make(1, groups=2)
                return self.engine.run([1], limit=3).text
        """,
}


def test_a_healthy_module_passes_both_levels(stage: Stage) -> None:
    stage.write({**LIBRARY, **USER})
    before = stage.checksum()
    checks = stage.probe(("user.job",), symbols=("lib.core:make",), constants={"user.job:SIZE": 16})
    assert {name: check.status for name, check in checks.items()} == {"import": "pass", "signature": "pass"}
    assert checks["signature"].facts["parameters"] == {"lib.core:make": "(config, groups)"}
    assert checks["signature"].facts["constants"] == {"user.job:SIZE": "16"}
    assert checks["signature"].facts["calls"]["bound"] == 4
    module = checks["import"].facts["modules"]["user.job"]
    assert (module["file"], module["overlay"]) == (str(stage.site / "user/job.py"), False)
    assert stage.checksum() == before


def test_a_call_that_cannot_bind_is_placed_to_the_character(stage: Stage) -> None:
    stage.write({**LIBRARY, **USER})
    stage.write({"user/job.py": (stage.site / "user/job.py").read_text().replace("make(1, groups=2)", "make(1, é=2)")})
    check = stage.probe(("user.job",))["signature"]
    assert check.status == "fail"
    unexpected = next(finding for finding in check.findings if finding.rule == "unexpected-argument")
    assert (unexpected.file, unexpected.line) == ("user/job.py", 10)
    assert unexpected.text is not None
    assert unexpected.text[unexpected.column : unexpected.end_column] == "é"
    assert unexpected.callee == "lib.core.make"
    assert unexpected.signature == "(config, groups)"
    missing = next(finding for finding in check.findings if finding.rule == "missing-argument")
    assert missing.text is not None
    assert missing.text[missing.column : missing.end_column] == "make"


def test_the_patched_file_is_the_one_that_is_probed(stage: Stage) -> None:
    stage.write({**LIBRARY, **USER})
    source = (stage.site / "user/job.py").read_text()
    before = stage.checksum()
    checks = stage.probe(("user.job",), {"user/job.py": source.replace("make(1, groups=2)", "make(1, group=2)")})
    assert checks["import"].status == "pass"
    assert checks["import"].facts["modules"]["user.job"]["overlay"] is True
    worker = checks["import"].facts["workers"]["user.job"]
    assert worker["overlay"] is True
    assert worker["file"].endswith("/overlay/user/job.py")
    (unexpected, missing) = sorted(checks["signature"].findings, key=lambda finding: finding.rule, reverse=True)
    assert unexpected.file == missing.file == "user/job.py"
    assert "did it become 'groups'?" in unexpected.message
    assert stage.checksum() == before


def test_a_patched_module_is_probed_unasked(stage: Stage) -> None:
    stage.write({**LIBRARY, **USER})
    checks = stage.probe((), {"user/job.py": "import lib.core\ndef go():\n    lib.core.make()\n"})
    assert [finding.line for finding in checks["signature"].findings] == [3]


def test_a_module_that_stands_before_the_overlay_is_noticed(stage: Stage) -> None:
    stage.write({**USER, **LIBRARY, "user/__init__.py": f"__path__.insert(0, {str(stage.site / 'elsewhere')!r})"})
    stage.write({"elsewhere/job.py": "x = 1\n"})
    check = stage.probe(("user.job",), {"user/job.py": "x = 2\n"})["import"]
    assert check.status == "fail"
    assert [finding.rule for finding in check.findings] == ["overlay-not-used"]
    assert "elsewhere/job.py" in check.findings[0].message


def test_all_failed_imports_are_told_at_once(stage: Stage) -> None:
    stage.write(
        {
            "a.py": "import lib_that_is_not\n",
            "b.py": "def f():\n    raise OSError('libcudart.so.12: cannot open shared object file')\nf()\n",
            "c.py": "def broken(:\n",
            "d.py": "raise SystemExit(3)\n",
            "e.py": "from lib.core import Gone\n",
            "f.py": "x = 1\n",
            **LIBRARY,
        }
    )
    checks = stage.probe(("a", "b", "c", "d", "e", "f", "g"))
    told = [(f.rule, f.file, f.line) for f in checks["import"].findings]
    assert told == [
        ("module-not-found-error", "a.py", 1),
        ("os-error", "b.py", 2),
        ("syntax-error", "c.py", 1),
        ("system-exit", "d.py", 1),
        ("import-error", "e.py", 1),
        ("module-not-found-error", None, None),
    ]
    assert "libcudart.so.12" in checks["import"].findings[1].message
    assert checks["import"].findings[4].text == "from lib.core import Gone"
    assert checks["signature"].status == "skip"


def test_the_frame_told_is_the_gated_modules_not_the_librarys(stage: Stage) -> None:
    stage.write({"lib.py": "def f():\n    raise RuntimeError('no driver')\n", "user.py": "import lib\nlib.f()\n"})
    (finding,) = stage.probe(("user",))["import"].findings
    assert (finding.file, finding.line, finding.text) == ("user.py", 2, "lib.f()")


@pytest.mark.parametrize(
    "noise",
    [
        "print('x' * 5_000_000)",
        "import os; os.write(1, b'y' * 100_000); os.write(2, b'z' * 100_000)",
        "import os; os.close(1)",
        "import os, sys; os.close(1); os.close(2); sys.stdout = sys.stderr = None",
        "import sys; sys.stdout.write('\\x1ePRUDENT-GATE 2 00\\n{}')",
        "import atexit, os; atexit.register(os._exit, 9)",
        "import atexit; atexit.register(print, 'late' * 100_000)",
        "import os\nif os.fork() == 0:\n    print('both of us')",
        "import os, time\nif os.fork() == 0:\n    time.sleep(600)",
        "import subprocess; subprocess.Popen(['sleep', '600'])",
        "import threading, time; threading.Thread(target=time.sleep, args=(600,)).start()",
        "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)",
        "import sys; sys.setrecursionlimit(120)",
        "import os; os.chdir('/')",
        "import warnings; warnings.warn('loud')",
        "import os; os.environ.clear()",
    ],
)
def test_nothing_that_a_module_does_disturbs_the_answer(stage: Stage, noise: str) -> None:
    stage.write({"noisy.py": noise})
    checks = stage.probe(("noisy",))
    assert {name: check.status for name, check in checks.items()} == {"import": "pass", "signature": "pass"}


@pytest.mark.parametrize(
    ("end", "rule", "words"),
    [
        ("import os; print('last words', flush=True); os._exit(0)", "import-exit", "status 0"),
        ("import os; print('last words', flush=True); os._exit(7)", "import-exit", "status 7"),
        ("import ctypes; print('last words', flush=True); ctypes.string_at(0)", "import-crash-sigsegv", "segmentation"),
        ("import os; print('last words', flush=True); os.abort()", "import-crash-sigabrt", "abort"),
        ("import os; print('last words', flush=True); os.kill(os.getpid(), 9)", "import-crash-sigkill", "memory"),
    ],
)
def test_an_import_that_ends_the_process_is_named(stage: Stage, end: str, rule: str, words: str) -> None:
    stage.write({"fine.py": "", "fatal.py": end})
    check = stage.probe(("fine", "fatal"))["import"]
    (finding,) = check.findings
    assert (check.status, finding.rule, finding.callee) == ("fail", rule, "fatal")
    assert words in finding.message
    assert "while importing fatal" in finding.message
    assert "last words" in (finding.text or "")


def test_an_import_without_end_is_ended(stage: Stage) -> None:
    stage.write({"slow.py": "print('still here', flush=True)\nimport time\ntime.sleep(600)\n"})
    (finding,) = stage.probe(("slow",), deadline=10.0)["import"].findings
    assert (finding.rule, finding.callee) == ("import-timeout", "slow")
    assert "still here" in (finding.text or "")


def test_the_import_sees_the_jobs_environment_and_secrets(stage: Stage) -> None:
    stage.write({"asks.py": "import os\nassert (os.environ['WANTED'], os.environ['TOKEN']) == ('yes', 's3cret')\n"})
    job = stage.job(env={"PYTHONPATH": str(stage.site), "WANTED": "yes"}, gate=schema.GateSpec(modules=("asks",)))
    bundle = stage.push(job)
    request = schema.ProbeRequest(job=job, bundle=bundle.root.name, secrets={"TOKEN": "s3cret"})
    answer = stage.call(bundle, "probe", request, schema.ProbeAnswer)
    assert answer.checks[0].findings == ()


def test_an_import_that_stumbles_over_a_variable_names_it(stage: Stage) -> None:
    stage.write({"asks.py": "import os\nROOM = int(os.environ['ROOM_IN_GIB'])\n"})
    environment = {"PYTHONPATH": str(stage.site), "ROOM_IN_GIB": "lots"}
    job = stage.job(env=environment, gate=schema.GateSpec(modules=("asks",)))
    bundle = stage.push(job)
    request = schema.ProbeRequest(job=job, bundle=bundle.root.name)
    (finding,) = stage.call(bundle, "probe", request, schema.ProbeAnswer).checks[0].findings
    assert (finding.rule, finding.file, finding.line) == ("value-error", "asks.py", 2)
    assert finding.message.endswith("'lots'; see `ROOM_IN_GIB` in the job's environment")


def test_an_exception_that_passes_another_on_says_which(stage: Stage) -> None:
    stage.write(
        {
            "levels.py": "def of(name):\n    raise ValueError(f'Unknown level: {name!r}')\n",
            "setup.py": """
                import os
                import levels
                try:
                    try:
                        levels.of(os.environ['LOG_LEVEL'])
                    except ValueError as error:
                        raise KeyError('no handler') from error
                except KeyError as error:
                    raise ValueError('Unable to configure') from error
                """,
            "same.py": """
                try:
                    raise OSError('gone: x')
                except OSError as error:
                    raise ImportError(f'cannot: {error}') from error
                """,
            "ring.py": "one, two = ValueError('a'), ValueError('b')\n"
            "one.__cause__, two.__cause__ = two, one\nraise one\n",
        }
    )
    environment = {"PYTHONPATH": str(stage.site), "LOG_LEVEL": "LOUD"}
    job = stage.job(env=environment, gate=schema.GateSpec(modules=("setup", "same", "ring")))
    bundle = stage.push(job)
    request = schema.ProbeRequest(job=job, bundle=bundle.root.name)
    found = stage.call(bundle, "probe", request, schema.ProbeAnswer).checks[0].findings
    see = "; see `LOG_LEVEL` in the job's environment"
    assert [one.message.partition(" does not import: ")[2] for one in found] == [
        f"ValueError: Unable to configure, because of ValueError: Unknown level: 'LOUD'{see}",
        "ImportError: cannot: gone: x",
        "ValueError: a, because of ValueError: b",
    ]


def test_no_python_is_a_finding(stage: Stage) -> None:
    bundle = stage.push(None)
    request = schema.ProbeRequest(job=stage.job(python="/nonexistent/python"), bundle=bundle.root.name)
    answer = stage.call(bundle, "probe", request, schema.ProbeAnswer)
    assert [finding.rule for finding in answer.checks[0].findings] == ["no-python"]


def test_a_patch_for_a_package_that_is_not_there_is_a_finding(stage: Stage) -> None:
    check = stage.probe((), {"absent/x.py": ""})["import"]
    assert [finding.rule for finding in check.findings] == ["overlay-failed"]


def test_symbols_and_constants_that_are_not_there_are_findings(stage: Stage) -> None:
    stage.write({**LIBRARY, **USER})
    check = stage.probe(
        ("user.job",),
        symbols=("lib.core:Engine.ran", "lib.gone:x", "lib.core:Engine.run"),
        constants={"user.job:SIZ": 16, "user.job:SIZE": 17},
    )["signature"]
    assert [(finding.rule, finding.callee) for finding in check.findings] == [
        ("missing-symbol", "lib.core:Engine.ran"),
        ("missing-symbol", "lib.gone:x"),
        ("missing-symbol", "user.job:SIZ"),
        ("constant-differs", "user.job:SIZE"),
    ]
    assert "did it become 'run'?" in check.findings[0].message
    assert list(check.facts["parameters"]) == ["lib.core:Engine.run"]


def test_nothing_to_look_at_is_a_skip(stage: Stage) -> None:
    assert {check.status for check in stage.probe(()).values()} == {"skip"}


def test_the_spawned_worker_leaves_nothing(stage: Stage) -> None:
    stage.write(USER | LIBRARY)
    stage.probe(("user.job",), {"user/job.py": "x = 1\n"})
    mark = str(stage.root).encode()
    for process in Path("/proc").glob("[0-9]*/environ"):
        try:
            assert mark not in process.read_bytes(), process
        except OSError:  # gone meanwhile, or not ours
            continue


@pytest.mark.parametrize("code", [-1, -64, -255, 1, 255, None])
def test_every_end_has_words(code: int | None) -> None:
    finding = described(ChildCrashed("probe-child", code, ""), "m", 5.0)
    assert finding.rule.startswith("import-")
    assert finding.message
    assert finding.text is None


def test_folders_of_probes_that_were_killed_go_and_those_at_work_stay(stage: Stage, tmp_path: Path) -> None:
    place = tmp_path / "temporary"
    place.mkdir()
    day = 24 * 3600
    for name, age in (("prudent-gate-probe-old", 2 * day), ("prudent-gate-probe-new", day / 2), ("other-old", 2 * day)):
        (place / name).mkdir()
        (place / name / "trail").write_text("")
        os.utime(place / name, (time.time() - age,) * 2)
    (place / "prudent-gate-probe-link").symlink_to(place / "other-old")
    stage.write({"fine.py": "x = 1\n"})
    job = stage.job(env={"PYTHONPATH": str(stage.site)}, gate=schema.GateSpec(modules=("fine",)))
    bundle = stage.push(job)
    request = schema.ProbeRequest(job=job, bundle=bundle.root.name)
    answer = stage.call(bundle, "probe", request, schema.ProbeAnswer, TMPDIR=str(place))
    assert answer.checks[0].status == "pass"
    assert {path.name for path in place.iterdir()} == {"prudent-gate-probe-new", "prudent-gate-probe-link", "other-old"}
