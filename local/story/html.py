"""Pages as one HTML file that stands alone: no script, no resource from anywhere, every word of a host escaped.

The policy in its head lets a browser load nothing and run nothing but our own style sheet, which it knows by its hash.
"""

from __future__ import annotations

import base64
import functools
import hashlib
from pathlib import Path
from typing import TYPE_CHECKING

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from local.story import page

if TYPE_CHECKING:
    from collections.abc import Sequence

    from local.story.blocks import Page

TEMPLATES = Path(__file__).parent / "templates"


def render(pages: Sequence[Page]) -> str:
    """Give the document of one run, or of many below each other."""
    style = _style()
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; img-src data:; base-uri 'none'; form-action 'none'"
    template = _environment().get_template("page.html")
    overview, heading = page.overview(pages), page.heading(pages)
    return template.render(
        pages=pages, overview=overview, heading=heading, title=_title(pages), policy=policy,
        style=Markup(style),  # noqa: S704 - our own file
    )  # fmt: skip


def _title(pages: Sequence[Page]) -> str:
    if len(pages) == 1:
        return f"{pages[0].run} on {pages[0].host}: {pages[0].outcome}"
    return f"{len(pages)} runs: {', '.join(page.host for page in pages)}"


@functools.cache
def _environment() -> Environment:
    return Environment(
        loader=FileSystemLoader(TEMPLATES), autoescape=True, undefined=StrictUndefined, trim_blocks=True,
        lstrip_blocks=True,
    )  # fmt: skip


@functools.cache
def _style() -> str:
    return (TEMPLATES / "style.css").read_text("utf-8")
