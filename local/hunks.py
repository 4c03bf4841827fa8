"""Unified diffs as values and their application: fuzz 0, moved hunks only where their context is unique. Pure."""

from __future__ import annotations

import io
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True, kw_only=True, slots=True)
class Hunk:
    """One `@@` part: the lines it expects and the lines it leaves, endings included."""

    header: str
    start: int
    new_start: int
    old: tuple[str, ...]
    new: tuple[str, ...]

    @property
    def leading(self) -> int:
        """Count the context lines before the first change."""
        return _common(self.old, self.new)

    @property
    def trailing(self) -> int:
        """Count the context lines after the last change."""
        most = min(len(self.old), len(self.new)) - self.leading
        return min(most, _common(self.old[::-1], self.new[::-1]))

    def reversed(self) -> Hunk:
        """Give the hunk that takes this one back."""
        return replace(self, start=self.new_start, new_start=self.start, old=self.new, new=self.old)


@dataclass(frozen=True, kw_only=True, slots=True)
class FileDiff:
    """What a diff does to one file; `added` when the file is new."""

    path: str
    hunks: tuple[Hunk, ...]
    added: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Miss:
    """A hunk without a place: its number, the line (1-based) it was expected at, that line's text, and why not."""

    number: int
    hunk: Hunk
    line: int
    text: str
    reason: str


@dataclass(slots=True)
class Result:
    """The text after a diff; with `misses` it means nothing. `moved` when a hunk was not where it says."""

    text: str
    moved: bool = False
    misses: list[Miss] = field(default_factory=list)


def split(text: str) -> list[str]:
    r"""Give the lines with their endings; only `\n` ends a line, as in a diff."""
    return list(io.StringIO(text, newline="\n"))


def apply_file(diff: FileDiff, text: str) -> Result:
    """Apply every hunk of one file's diff to its text."""
    lines = split(text)
    hunks = _in_endings_of(diff.hunks, lines)
    result, done, moved, written = Result(""), 0, 0, list[str]()
    for number, hunk in enumerate(hunks, 1):
        at, reason = _locate(lines, hunk, least=done, moved=moved)
        if at is None:
            result.misses.append(_miss(number, hunk, lines, reason))
            continue
        moved = at - _stated(hunk)
        result.moved = result.moved or moved != 0
        written += [*lines[done:at], *hunk.new]
        done = at + len(hunk.old)
    result.text = "".join([*written, *lines[done:]])
    return result


def taken_back(diff: FileDiff, text: str) -> str | None:
    """Give the text without the diff when its result is there already, else None."""
    if diff.added:
        return "" if text == "".join(line for hunk in diff.hunks for line in hunk.new) else None
    back = apply_file(replace(diff, hunks=tuple(hunk.reversed() for hunk in diff.hunks)), text)
    return None if back.misses else back.text


def _locate(lines: Sequence[str], hunk: Hunk, *, least: int, moved: int) -> tuple[int | None, str]:
    """Find where the hunk's old lines stand: the place it names, or else the only place there is."""
    stated = _stated(hunk)
    if not moved and stated >= least and _fits(lines, hunk, stated):
        return stated, ""
    places = [at for at in range(least, len(lines) - len(hunk.old) + 1) if _fits(lines, hunk, at)]
    if len(places) == 1 and hunk.old:
        return places[0], ""
    if len(places) > 1 and hunk.old:
        named = ", ".join(str(at + 1) for at in places[:5])
        return None, f"its lines are not where it says, and occur more than once (lines {named}): ambiguous"
    return None, ""


def _fits(lines: Sequence[str], hunk: Hunk, at: int) -> bool:
    # A hunk without context before or after its change belongs to the start or the end of the file.
    if not hunk.leading and hunk.start <= 1 and at:
        return False
    if not hunk.trailing and at + len(hunk.old) != len(lines):
        return False
    return tuple(lines[at : at + len(hunk.old)]) == hunk.old


def _stated(hunk: Hunk) -> int:
    return hunk.start - 1 if hunk.old else hunk.start


def _miss(number: int, hunk: Hunk, lines: Sequence[str], reason: str) -> Miss:
    """Point at the first line that differs, at the place that resembles the hunk most."""
    stated = max(0, min(_stated(hunk), len(lines)))
    best = max(range(len(lines) + 1), key=lambda at: (_likeness(lines, hunk.old, at), -abs(at - stated)))
    if reason or not _likeness(lines, hunk.old, best):
        line = min(stated, max(0, len(lines) - 1))
        return Miss(number=number, hunk=hunk, line=line + 1, text=_at(lines, line), reason=reason or _nowhere(hunk))
    step = next((n for n, wanted in enumerate(hunk.old) if _at(lines, best + n) != wanted), len(hunk.old))
    wanted = hunk.old[step].strip() if step < len(hunk.old) else "the end of the file"
    line = min(best + step, max(0, len(lines) - 1))
    reason = f"it expects `{wanted}` here" if wanted else "it expects an empty line here"
    if _locate(lines, hunk.reversed(), least=0, moved=0)[0] is not None:
        reason = "its result is there already, that of other hunks is not"
    return Miss(number=number, hunk=hunk, line=line + 1, text=_at(lines, line), reason=reason)


def _nowhere(hunk: Hunk) -> str:
    return "none of its lines is in the file" if hunk.old else "the file is not empty"


def _likeness(lines: Sequence[str], old: Sequence[str], at: int) -> int:
    # Blank lines resemble each other everywhere: they count for nothing.
    return sum(_at(lines, at + n) == wanted and not wanted.isspace() for n, wanted in enumerate(old))


def _at(lines: Sequence[str], index: int) -> str:
    return lines[index] if index < len(lines) else ""


def _common(one: Sequence[str], other: Sequence[str]) -> int:
    count = 0
    for first, second in zip(one, other, strict=False):
        if first != second:
            break
        count += 1
    return count


def _in_endings_of(hunks: tuple[Hunk, ...], lines: Sequence[str]) -> tuple[Hunk, ...]:
    """Turn the hunks to the file's line endings, where both sides know only one kind."""
    theirs, ours = _ending(lines), _ending([line for hunk in hunks for line in (*hunk.old, *hunk.new)])
    if theirs is None or ours is None or theirs == ours:
        return hunks
    return tuple(
        replace(
            hunk,
            old=tuple(_with_ending(line, theirs) for line in hunk.old),
            new=tuple(_with_ending(line, theirs) for line in hunk.new),
        )
        for hunk in hunks
    )


def _ending(lines: Sequence[str]) -> str | None:
    kinds = {"\r\n" if line.endswith("\r\n") else "\n" for line in lines if line.endswith("\n")}
    return kinds.pop() if len(kinds) == 1 else None


def _with_ending(line: str, ending: str) -> str:
    if not line.endswith("\n"):
        return line
    return line.removesuffix("\n").removesuffix("\r") + ending
