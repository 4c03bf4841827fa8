"""The patch files of the series: header, reason, diff; a mistake in one is told by file and line."""

from __future__ import annotations

import io
import itertools
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from packaging.requirements import InvalidRequirement, Requirement
from unidiff import PatchSet, UnidiffParseError

from local.errors import UsageError
from local.hunks import FileDiff, Hunk

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from unidiff import Hunk as UnidiffHunk
    from unidiff import PatchedFile

NAME = re.compile(r"(?P<number>\d{4})-[\w.-]+\.patch", re.ASCII)
FIELD = re.compile(r"(?P<name>[A-Za-z][A-Za-z-]*):[ \t]*(?P<value>.*)")
KNOWN = frozenset({"Subject", "Applies-To", "Upstream", "From", "Date"})
BETWEEN = re.compile(r"(diff --git |index [0-9a-f]|--- |\+\+\+ |new file mode |\\ No newline|-- ?$|\d+\.[\d.]+$|\s*$)")
NOTHING = "/dev/null"


@dataclass(frozen=True, kw_only=True, slots=True)
class Patch:
    """One patch of the series; `files` are relative to the folder of the installed packages."""

    number: str
    title: str
    why: str
    applies_to: tuple[Requirement, ...]
    path: Path
    files: tuple[str, ...]
    text: str
    diffs: tuple[FileDiff, ...]

    @property
    def meant_for(self) -> str:
        """Say which versions the patch is meant for."""
        return ", ".join(f"{need.name}{need.specifier}" for need in self.applies_to)


def load(path: Path) -> Patch:
    """Read one patch file; raises UsageError naming file and line."""
    name = NAME.fullmatch(path.name)
    if not name:
        raise UsageError("a patch file is named NNNN-words.patch", where=str(path))
    try:
        lines = list(io.StringIO(path.read_bytes().decode(), newline="\n"))
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot be read as UTF-8 text ({error})", where=f"{path}:1") from error
    cut = next((n for n, line in enumerate(lines) if line.rstrip() == "---"), None)
    if cut is None:
        raise UsageError("no line `---` between the reason and the diff", where=f"{path}:{len(lines)}")
    header, reason = _header(path, lines[:cut])
    text = "".join(lines[cut + 1 :])
    diffs = parse(text, where=str(path), first=cut + 2)
    return Patch(
        number=name["number"],
        title=header["Subject"][0],
        why=reason,
        applies_to=_applies_to(header["Applies-To"][0], f"{path}:{header['Applies-To'][1]}"),
        path=path,
        files=tuple(diff.path for diff in diffs),
        text=text,
        diffs=diffs,
    )


def parse(text: str, *, where: str, first: int = 1) -> tuple[FileDiff, ...]:
    """Read a unified diff; `first` is the line of `where` at which it starts."""
    lines = list(io.StringIO(text, newline="\n"))
    at = 0

    def counted() -> Iterator[str]:
        nonlocal at
        for at, line in enumerate(lines):  # noqa: B007 - `at` is read when the parser gives up
            yield line

    try:
        files = PatchSet(counted())
    except (UnidiffParseError, UnboundLocalError) as error:  # the latter where a `+++` has no `---` before it
        why = (
            str(error).strip()
            if isinstance(error, UnidiffParseError)
            else "a `+++` line without a `---` line before it"
        )
        raise UsageError(f"not a unified diff: {why}", where=f"{where}:{first + at}") from error
    _refuse_strays(files, lines, where, first)
    if not files:
        raise UsageError("no diff after `---`", where=f"{where}:{first}")
    diffs = tuple(_file(file, where, first) for file in files)
    for n, diff in enumerate(diffs):
        if any(diff.path == other.path for other in diffs[:n]):
            raise UsageError(f"two diffs of {diff.path} in one patch", where=f"{where}:{first}")
    return diffs


def _header(path: Path, lines: list[str]) -> tuple[dict[str, tuple[str, int]], str]:
    """Give the fields with their line numbers, and the free text after the blank line."""
    fields: dict[str, tuple[str, int]] = {}
    last, end = "", len(lines)
    for number, line in enumerate(lines, 1):
        if not line.strip():
            end = number
            break
        if line[0] in " \t" and last:  # a folded line goes on with the field before it
            fields[last] = (f"{fields[last][0]} {line.strip()}", fields[last][1])
            continue
        match = FIELD.match(line.rstrip("\r\n"))
        if not match or match["name"] not in KNOWN:
            known = ", ".join(sorted(KNOWN))
            raise UsageError(f"not a header line (known: {known})", where=f"{path}:{number}")
        last = match["name"]
        if last in fields:
            raise UsageError(f"`{last}:` given twice", where=f"{path}:{number}")
        fields[last] = (match["value"].strip(), number)
    for name in ("Subject", "Applies-To"):
        if not fields.get(name, ("", 0))[0]:
            raise UsageError(f"no `{name}:` in the header", where=f"{path}:{fields.get(name, ('', 1))[1]}")
    return fields, "".join(lines[end:]).strip()


def _applies_to(value: str, where: str) -> tuple[Requirement, ...]:
    needs = []
    for part in filter(None, (piece.strip() for piece in value.split(";"))):
        try:
            need = Requirement(part)
        except InvalidRequirement as error:
            reason = str(error).splitlines()[0]
            raise UsageError(f"Applies-To: {part!r} is no requirement: {reason}", where=where) from error
        if need.extras or need.url:
            raise UsageError(f"Applies-To: {part!r}: a name and versions only", where=where)
        needs.append(need)
    if not needs:
        raise UsageError("Applies-To: names no package", where=where)
    return tuple(needs)


def _refuse_strays(files: PatchSet, lines: list[str], where: str, first: int) -> None:
    """Refuse what the parser passed over in silence: a line too many in a hunk, a mistyped header."""
    taken: set[int] = set()
    for file in files:
        for hunk in file:
            numbers = [line.diff_line_no for line in hunk if line.diff_line_no]
            taken.update(numbers, [min(numbers, default=1) - 1])
    for number, line in enumerate(lines, 1):
        if number not in taken and not BETWEEN.match(line):
            message = f"this line belongs to no hunk (are the counts of the `@@` line right?): {line.rstrip()[:80]!r}"
            raise UsageError(message, where=f"{where}:{first + number - 1}")


def _file(file: PatchedFile, where: str, first: int) -> FileDiff:
    numbers = [line.diff_line_no for hunk in file for line in hunk if line.diff_line_no]
    place = f"{where}:{first + min(numbers, default=1) - 1}"
    source, target = file.source_file.rstrip("\r"), file.target_file.rstrip("\r")
    if target == NOTHING:
        raise UsageError(f"deletes {source}: an overlay cannot take a file away; empty it instead", where=place)
    path = _inside(target, "b/", place)
    if source not in {NOTHING, f"a/{path}"}:
        raise UsageError(f"renames {source} to {target}: give the new file whole instead", where=place)
    if not file:
        raise UsageError(f"no hunk for {path}", where=place)
    added = source == NOTHING
    hunks = tuple(_hunk(hunk, place, added=added) for hunk in file)
    for one, other in itertools.pairwise(hunks):
        if other.start < one.start + len(one.old):
            raise UsageError(f"hunk {other.header} of {path} starts before the one above it ends", where=place)
    return FileDiff(path=path, added=added, hunks=hunks)


def _inside(name: str, prefix: str, place: str) -> str:
    """Give the path below the packages' folder; refuse one that leads out of it."""
    path = name.removeprefix(prefix)
    parts = path.split("/")
    if not name.startswith(prefix) or '"' in path or "\\" in path or not path.isprintable():
        raise UsageError(f"{name!r}: expected a plain path that starts with {prefix}", where=place)
    if any(part in {"", ".", ".."} for part in parts) or (len(parts) == 1 and not path.endswith(".py")):
        raise UsageError(f"{name!r} leads out of the installed packages", where=place)
    return path


def _hunk(hunk: UnidiffHunk, place: str, *, added: bool) -> Hunk:
    sides: dict[str, list[str]] = {"old": [], "new": []}
    previous: tuple[str, ...] = ()
    for line in hunk:
        if line.line_type == "\\":  # "No newline at end of file" speaks of the line before it
            for side in previous:
                sides[side][-1] = sides[side][-1].removesuffix("\n").removesuffix("\r")
            continue
        previous = {"+": ("new",), "-": ("old",)}.get(line.line_type, ("old", "new"))
        for side in previous:
            sides[side].append(line.value)
    counts = f"-{hunk.source_start},{hunk.source_length} +{hunk.target_start},{hunk.target_length}"
    header = f"@@ {counts} @@ {hunk.section_header}".strip()
    if sides["old"] == sides["new"]:
        raise UsageError(f"hunk {header} changes nothing", where=place)
    if not sides["old"] and not added and hunk.source_start:
        raise UsageError(f"hunk {header} has no context to hold it to; make the diff with `-U3`", where=place)
    return Hunk(
        header=header,
        start=hunk.source_start,
        new_start=hunk.target_start,
        old=tuple(sides["old"]),
        new=tuple(sides["new"]),
    )
