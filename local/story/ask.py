"""Ask a host for the story of a run, and make every word of it safe to show: no secrets, no control characters."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from local.errors import UsageError
from local.masks import mask, mask_torn
from local.text import clean
from remote import wire
from remote.schema import Story, StoryAnswer, StoryRequest

if TYPE_CHECKING:
    from collections.abc import Iterable

    from local.host import Host

CUT = "…"  # where a host has cut off a text
ASKING = 180.0  # seconds: a manifest of a million lines is read on the way


def story(host: Host, *, bundle: str, run: str | None, secrets: Iterable[str] = ()) -> Story:
    """Give the story of the run that is named, or of the latest; raises UsageError when it is not there."""
    request = StoryRequest(workdir=host.workdir, run=run)
    told = host.call("story", request, StoryAnswer, bundle=bundle, deadline=ASKING).story
    if told is None:
        what = f"no run {run!r} in {host.workdir}" if run else f"no run in {host.workdir}"
        raise UsageError(what, remedy="`fab runs` lists what is there.", where=host.name)
    return safe(told, secrets)


def safe(told: Story, secrets: Iterable[str] = ()) -> Story:
    """Give the same story with secrets masked and everything taken out of its texts that could steer who reads it."""
    hidden = tuple(secrets)
    return wire.decode(Story, {"schema": wire.SCHEMA, **_safe(dataclasses.asdict(told), hidden)}, "story")


def _safe(value: Any, secrets: tuple[str, ...]) -> Any:
    if isinstance(value, str):
        cut = value.endswith(CUT)
        shown = clean(mask_torn(value.removesuffix(CUT), secrets, end=cut), lines=True)
        return mask_torn(shown, secrets, end=cut) + CUT * cut
    if isinstance(value, dict):
        return {clean(mask(str(key), secrets)): _safe(item, secrets) for key, item in value.items()}
    return [_safe(item, secrets) for item in value] if isinstance(value, list | tuple) else value
