"""Verb `census`: what this host has of a job's dataset, asked of a clean process of the job's environment."""

from __future__ import annotations

from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from remote import children
from remote.paths import Bundle
from remote.schema import CensusAnswer

if TYPE_CHECKING:
    from remote.schema import CensusRequest

SAID = 2000  # characters of a crashed child's own words


def answer(request: CensusRequest) -> CensusAnswer:
    """Give the census; a child that cannot run is its trouble."""
    try:
        return children.ask(
            "census-child",
            request,
            CensusAnswer,
            job=request.job,
            bundle=Bundle(PurePosixPath(Path(__file__).resolve().parents[2])),
            deadline=request.deadline,
            secrets=request.secrets,
        )
    except children.ChildCrashed as crash:
        return CensusAnswer(trouble=f"{crash}: {crash.output.strip()[-SAID:] or 'it said nothing'}")
    except OSError as error:
        return CensusAnswer(trouble=f"{request.job.python}: cannot be started ({error.strerror})")
