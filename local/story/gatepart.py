"""The gate's part of a page: the verdict of the run, what was refused before it, versions and patches. Pure."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from local import saved
from local.story.blocks import Facts, Note, Section, Table
from local.story.words import cell, check_named, fault, moment, table
from local.summary import duration
from local.telling import of_check

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from local.story.blocks import Block, Cell
    from remote.schema import Check, Story, Verdict

SHOWN = 20  # findings of one verdict
MARKS = {"python": "Python", "system": "system", "driver": "driver", "CUDA": "CUDA", "GPUs": "GPUs"}


def verdict(story: Story) -> Section:
    """Tell what the gate decided before the run, and what it had refused before that."""
    return Section(id="verdict", title="The gate", blocks=tuple(_verdict(story)))


def _verdict(story: Story) -> Iterator[Block]:
    made = story.verdict
    if made is None:
        yield Note(text="The verdict that this run was started on is not kept on the host any more.", tone="warn")
    else:
        yield Facts(
            rows=(
                ("verdict", f"{made.verdict}, up to level {made.level}"),
                ("decided", moment(made.decided)),
                ("took", duration(sum(check.seconds for check in made.checks))),
                ("fingerprint", made.fingerprint[:16]),
                ("bundle", made.bundle[:16]),
            )
        )
        yield _checks(made.checks)
        if made.changed:
            yield Note(text=f"Since the pass before it: {', '.join(made.changed)}.")
        yield from _faults(made.checks)
    for refused in story.refused:
        yield from _refused(refused)


def _checks(checks: Sequence[Check]) -> Table:
    rows = [
        (cell(check.id), cell(check.status), cell(duration(check.seconds)), cell(of_check(check), tone=""))
        for check in checks
    ]
    return Table(titles=("level", "status", "took", "saw"), rows=tuple(rows), right=(2,), caption="What it looked at")


def _faults(checks: Sequence[Check]) -> Iterator[Block]:
    findings = [finding for check in checks for finding in check.findings]
    order = {"error": 0, "warning": 1}
    findings.sort(key=lambda finding: order.get(finding.severity, 2))
    yield from (fault(finding) for finding in findings[:SHOWN])
    if len(findings) > SHOWN:
        yield Note(text=f"… and {len(findings) - SHOWN} more findings.")


def _refused(made: Verdict) -> Iterator[Block]:
    found = saved.faults(made.checks)
    counted = f"; {found} of its faults would each have cost a load" if found else ""
    yield Note(text=f"Refused at level {made.level} on {moment(made.decided)}, before this run{counted}.", tone="bad")
    errors = [
        replace(check, findings=tuple(finding for finding in check.findings if finding.severity == "error"))
        for check in made.checks
    ]
    yield from _faults(errors)


def versions(story: Story, titles: Mapping[str, str]) -> Section | None:
    """Tell what was installed, and which patches were in force."""
    made = story.verdict
    if made is None:
        return None
    blocks: list[Block] = []
    main = [(label, text) for key, label in MARKS.items() if (text := made.basis.get(key))]
    main += [(name, str(version)) for name, version in table(check_named(made.checks, "host"), "versions").items()]
    blocks += [Facts(rows=tuple(main))] if main else []
    states = table(check_named(made.checks, "patch"), "patches")
    if states:
        rows = tuple(
            (cell(number), cell(titles.get(number, ""), tone=""), cell(state)) for number, state in states.items()
        )
        blocks.append(Table(titles=("patch", "title", "state"), rows=rows, caption="Patches"))
    elif "patches" in check_named(made.checks, "patch"):
        blocks.append(Note(text="No patch of the series was in force: the job ran on the packages as they are."))
    packages = sorted((name[8:], text) for name, text in made.basis.items() if name.startswith("package "))
    if packages:
        installed: tuple[tuple[Cell, ...], ...] = tuple((cell(name), cell(text, tone="")) for name, text in packages)
        caption = f"All {len(packages)} packages of the environment"
        blocks.append(Table(titles=("package", "version"), rows=installed, caption=caption, folded=True))
    return Section(id="versions", title="Versions and patches", blocks=tuple(blocks)) if blocks else None
