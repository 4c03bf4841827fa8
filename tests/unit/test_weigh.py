from __future__ import annotations

import pytest

from local.levels import weigh
from local.telling import of_check
from remote.schema import Check, Finding

FILE = "speculators/x.py"


def warned(rule: str = "changed-default", line: int = 7, severity: str = "warning") -> Finding:
    return Finding(rule=rule, severity=severity, message="m", file=FILE, line=line, callee=f"vllm:Config.{line}")


def static(*findings: Finding, status: str = "warn") -> Check:
    return Check(id="static", status=status, findings=findings)


def failed(file: str, line: int, message: str = "it broke") -> Check:
    finding = Finding(rule="rehearsal-crashed", message=message, file=file, line=line)
    return Check(id="rehearsal", status="fail", findings=(finding,))


def test_a_rehearsal_that_passes_clears_what_only_it_can_judge() -> None:
    passed = Check(id="rehearsal", status="pass")
    (check,), rehearsal = weigh.weigh([static(warned(), warned("changed-return", 9))], passed)
    assert check.status == "pass"
    assert [finding.severity for finding in check.findings] == ["note", "note"]
    assert all(finding.message.startswith("cleared by the rehearsal") for finding in check.findings)
    assert rehearsal.facts["clears"] == [f"vllm:Config.7 ({FILE}:7)", f"vllm:Config.9 ({FILE}:9)"]
    assert "clears 2 warnings" in of_check(rehearsal)


def test_any_other_warning_stands() -> None:
    other = warned("disk-low", 1)
    (check,), rehearsal = weigh.weigh([static(other, warned())], Check(id="rehearsal", status="warn"))
    assert check.status == "warn"
    assert check.findings[0] == other
    assert len(rehearsal.facts["clears"]) == 1


@pytest.mark.parametrize(
    ("rehearsal", "confirms"),
    [
        (failed(FILE, 7), True),
        (failed(FILE, 30, "no; line 7 has `config = Config()`"), True),
        (failed(FILE, 30), False),
        (failed("vllm/x.py", 7), False),
    ],
)
def test_a_rehearsal_that_fails_confirms_the_line_that_it_fails_at(rehearsal: Check, *, confirms: bool) -> None:
    (check,), told = weigh.weigh([static(warned())], rehearsal)
    assert check.status == "warn"
    assert check.findings[0].severity == "warning"
    assert check.findings[0].message.startswith("confirmed by the rehearsal") is confirms
    assert ("confirms" in told.facts) is confirms
    assert "clears" not in told.facts


@pytest.mark.parametrize("status", ["skip", "pass"])
def test_with_nothing_to_judge_nothing_changes(status: str) -> None:
    before = [static(warned("missing-argument", severity="error"), status="fail"), Check(id="import", status="pass")]
    rehearsal = Check(id="rehearsal", status=status)
    assert weigh.weigh(before, rehearsal) == (tuple(before), rehearsal)


def test_what_nobody_rehearsed_stands() -> None:
    check = static(warned())
    assert weigh.weigh([check], Check(id="rehearsal", status="skip"))[0] == (check,)
