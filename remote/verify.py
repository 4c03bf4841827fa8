"""Verb `verify`: every sample of the dataset held against its file, in a clean process of the job's environment."""

from __future__ import annotations

from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from remote import children, masks
from remote.paths import Bundle
from remote.results import verified
from remote.schema import Finding, VerifyAnswer

if TYPE_CHECKING:
    from remote.schema import VerifyRequest

SAID = 4000  # characters of what a crash printed


def answer(request: VerifyRequest) -> VerifyAnswer:
    """Give what the files are worth; a child that cannot run is a finding."""
    found = _checked(request)
    verified.keep(request.job, found)  # for the report of the run, and for the hook that waits for it
    return found


def _checked(request: VerifyRequest) -> VerifyAnswer:
    try:
        return children.ask(
            "verify-child",
            request,
            VerifyAnswer,
            job=request.job,
            bundle=Bundle(PurePosixPath(Path(__file__).resolve().parents[2])),
            deadline=request.deadline,
            secrets=request.secrets,
        )
    except children.ChildCrashed as crash:
        said = masks.mask_torn(crash.output[-SAID:], request.secrets.values(), start=True)
        return unverified("verify-crashed", str(crash), text=said)
    except OSError as error:
        return unverified("verify-crashed", f"{request.job.python}: cannot be started ({error.strerror})")


def unverified(rule: str, message: str, *, text: str | None = None) -> VerifyAnswer:
    """Give the answer of a verification that could not be done: nothing is valid, one finding says why."""
    return VerifyAnswer(
        total=0,
        valid=0,
        missing=0,
        damaged=0,
        extra=0,
        tokens=0,
        size=0,
        findings=(Finding(rule=rule, message=message, text=text),),
    )
