"""`report`: the story of a run on each host, as one page that stands alone and as Markdown."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.markup import escape

from local import patches
from local import report as reports
from local.story import ask, html, markdown
from local.story.page import page
from local.tasks import named
from local.text import clean

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from local.session import Session
    from local.story.blocks import Page
    from local.targets import Target
    from remote.schema import Story


def tell(session: Session, *, run: str | None = None) -> Story:
    """Ask a host for the story of the run that is named, or of its latest."""
    told = ask.story(session.host, bundle=session.payload, run=run, secrets=session.secrets.values())
    session.word = told.status.phase
    return told


def foresee(
    _targets: Sequence[Target],
    *,
    run: str | None = None,
    html: str | None = None,
    markdown: str | None = None,
    **_: Any,
) -> None:
    """See that there may be such a run and that the files can be written, while no host has been asked."""
    named.foresee(run)
    for path in (html, markdown):
        if path is not None:
            reports.writable(path)


def write(sessions: Sequence[Session], *, html: str | None = None, markdown: str | None = None, **_: Any) -> None:
    """Write the runs of all hosts that could be asked: one document, however many they are."""
    told = [(session, session.values["report"]) for session in sessions if "report" in session.values]
    if not told:
        return
    pages = [_page(session, story) for session, story in told]
    if html is None and markdown is None:
        html = f"{pages[0].run}.html" if len(pages) == 1 else f"report-{min(page.run for page in pages)}.html"
        reports.writable(html)
    for path, text in ((html, _html), (markdown, _markdown)):
        if path is not None:
            reports.publish(path, text(pages))
            if path != "-":
                console = sessions[0].everyone
                console.print(f"the report is in [bold]{escape(clean(path))}[/]", soft_wrap=True)


def _html(pages: Sequence[Page]) -> str:
    return html.render(pages)


def _markdown(pages: Sequence[Page]) -> str:
    return markdown.render(pages)


def _page(session: Session, story: Story) -> Page:
    target = session.target
    return page(
        story, host=clean(session.name), usd_per_hour=target.usd_per_hour, gpus=target.gpus, titles=_titles(story)
    )


def _titles(story: Story) -> Mapping[str, str]:
    """Give the titles of the patches that are meant for what was installed."""
    if story.verdict is None:
        return {}
    names = ((name[8:], version) for name, version in story.verdict.basis.items() if name.startswith("package "))
    series = patches.load_series()
    return {patch.number: patch.title for patch in patches.select(series, dict(names))}
