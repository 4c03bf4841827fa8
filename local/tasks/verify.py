"""`verify`: every file held against manifest and dataset on each host, and one answer for the whole dataset."""

from __future__ import annotations

import sys
from json import dumps
from typing import TYPE_CHECKING, Any

from rich.markup import escape

from local import render, runs, tables, whole
from local.errors import JobFailed, PrudentError, UsageError
from local.summary import size
from local.tasks.watching import head
from local.text import clean

if TYPE_CHECKING:
    from collections.abc import Sequence

    from local.session import Session
    from local.targets import Target
    from remote.schema import VerifyAnswer

AGAIN = "`fab extract` computes what is missing or damaged, and nothing else."


def foresee(targets: Sequence[Target], **_: Any) -> None:
    """Refuse a job whose outputs nobody here knows; raises UsageError."""
    if any(target.job.engine == "command" for target in targets):
        raise UsageError(
            "engine 'command' writes outputs of its own form, which nothing here can check",
            remedy="The run's exit code is its own judgement: fab status.",
        )


def verify(session: Session, *, json: bool = False) -> VerifyAnswer:
    """Hold a host's files against manifest and dataset; a host alone raises JobFailed where they are not whole."""
    answer = runs.verify(session.host, session.job, bundle=session.payload, secrets=session.secrets)
    session.values["verified"] = answer
    if session.alone and not json:
        check(session, answer)
    else:
        part(session, answer)
    return answer


def check(session: Session, answer: VerifyAnswer) -> None:
    """Tell what verify found; raises JobFailed unless every sample that was meant is valid."""
    session.values["verified"] = answer
    if answer.total and answer.missing == answer.total:  # a list of every sample would say no more
        session.word = "no outputs"
        raise JobFailed(
            f"none of the {answer.total} samples is in {clean(session.job.output)}",
            remedy="`fab extract` computes them.",
        )
    for finding in answer.findings:
        render.print_finding(session.console, session.label, finding)
    complete = answer.total and answer.valid == answer.total and not answer.damaged and not answer.missing
    session.word = f"{answer.valid} of {answer.total} samples valid"
    said = f"{session.word}, {answer.tokens:,} tokens, {size(answer.size)} in {clean(session.job.output)}"
    if not complete:
        raise JobFailed(f"{said}; {answer.missing} missing, {answer.damaged} damaged{_held(answer)}", remedy=AGAIN)
    session.console.print(f"{head(session)}[bold green]verified[/]: {escape(said)}", soft_wrap=True)
    session.console.print(
        "  each against the dataset (tokens) and the manifest (shape, dtype, checksum): finite, not zero",
        style="dim",
        soft_wrap=True,
    )


def _held(answer: VerifyAnswer) -> str:
    """Say which part of a dataset this host holds, where it is one that can be told in a few words."""
    if not answer.missing or not answer.ranges:
        return ""
    return f". This host holds {whole.shortly(clean(answer.ranges))}"


def part(session: Session, answer: VerifyAnswer) -> None:
    """Tell what one of many hosts holds; what it lacks may stand on another."""
    for finding in answer.findings:
        if finding.rule != "sample-missing":
            render.print_finding(session.console, session.label, finding)
    if not answer.total and answer.findings:
        session.word = "not verified"
        raise JobFailed("the outputs cannot be verified", remedy="The finding above says why.")
    session.word = f"holds {answer.valid} of {answer.total} samples"


def show(sessions: Sequence[Session], *, json: bool = False, **_: Any) -> None:
    """Give one answer for the dataset; raises JobFailed where a sample is valid on no host."""
    answers: dict[str, VerifyAnswer | PrudentError] = {}
    for session in sessions:
        found = session.values.get("verified")
        unknown = session.error if isinstance(session.error, PrudentError) else PrudentError("not asked")
        answers[session.name] = unknown if found is None else found
    outputs = {session.name: session.job.output for session in sessions if "verified" in session.values}
    seen = None
    try:
        seen = whole.judge({name: one for name, one in answers.items() if not isinstance(one, PrudentError)})
    finally:  # a document of hosts that do not fit together is one, too
        if json:
            document = whole.document(sessions[0].target.job.name, answers, outputs, seen)
            sys.stdout.write(dumps(document, indent=2) + "\n")
    if not json and len(sessions) > 1 and seen is not None:
        tables.show(sessions, whole.table(answers, outputs, seen))
    if seen is not None and not seen.complete and (json or len(sessions) > 1):
        silent = [name for name, one in answers.items() if isinstance(one, PrudentError)]
        raise JobFailed(
            f"{len(seen.missing)} of {seen.total} samples are valid on no host{' that answered' if silent else ''}: "
            f"{whole.few(seen.missing)}",
            remedy=AGAIN + (f" What {', '.join(silent)} holds is not known." if silent else ""),
        )
