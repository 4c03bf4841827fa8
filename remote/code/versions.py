"""Versions and version ranges as PEP 440 orders them: as much of it as releases, candidates and nightlies need."""

from __future__ import annotations

import re

_VERSION = re.compile(
    r"v?(?P<release>\d+(?:\.\d+)*)(?:[-_.]?(?P<stage>a|b|c|rc|alpha|beta|pre|preview)[-_.]?(?P<stage_n>\d*))?"
    r"(?:[-_.]?post(?P<post>\d*))?(?:[-_.]?dev(?P<dev>\d*))?(?:\+[a-z0-9._-]+)?$",
    re.IGNORECASE,
)
_CLAUSE = re.compile(r"(==|!=|<=|>=|<|>|~=)\s*([^\s,]+)$")
_STAGES = {"a": 1, "alpha": 1, "b": 2, "beta": 2}
_CANDIDATE, _FINAL = 3, 4
Key = tuple[tuple[int, ...], int, int, int, float]


def key(version: str) -> Key:
    """Give what versions are ordered by; the local part (`+cpu`) does not count. Raises ValueError."""
    match = _VERSION.match(version.strip())
    if match is None:
        raise ValueError(f"{version!r} is no version")
    release = _trimmed(tuple(int(part) for part in match["release"].split(".")))
    dev = float(match["dev"] or 0) if match["dev"] is not None else float("inf")
    post = int(match["post"] or 0) + 1 if match["post"] is not None else 0
    if match["stage"]:
        stage, number = _STAGES.get(match["stage"].lower(), _CANDIDATE), int(match["stage_n"] or 0)
    elif match["dev"] is not None and not post:
        stage, number = 0, 0  # a development build comes before every stage of its release
    else:
        stage, number = _FINAL, 0
    return release, stage, number, post, dev


def fits(version: str, specifier: str) -> bool:
    """Say whether a version lies in a range like `>=0.16,<0.17`; pre-releases count. Raises ValueError."""
    return all(_clause(version, part.strip()) for part in specifier.split(",") if part.strip())


def _clause(version: str, clause: str) -> bool:
    match = _CLAUSE.match(clause)
    if match is None:
        raise ValueError(f"{clause!r} is no version clause")
    operator, bound = match.groups()
    if bound.endswith(".*"):
        return _begins(version, bound[:-2]) == (operator == "==")
    if operator == "~=":
        return key(version) >= key(bound) and _begins(version, bound.rpartition(".")[0])
    mine, theirs = key(version), key(bound)
    if operator == "<" and mine[0] == theirs[0] and theirs[1] == _FINAL and mine[1] < _FINAL:
        return False  # PEP 440: `<0.17` leaves out the candidates of 0.17
    return bool(
        {
            "==": mine == theirs, "!=": mine != theirs, "<": mine < theirs,
            "<=": mine <= theirs, ">": mine > theirs, ">=": mine >= theirs,
        }[operator]
    )  # fmt: skip


def _begins(version: str, prefix: str) -> bool:
    wanted = tuple(int(part) for part in prefix.split("."))
    release = key(version)[0]
    return (release + (0,) * len(wanted))[: len(wanted)] == wanted


def _trimmed(release: tuple[int, ...]) -> tuple[int, ...]:
    while len(release) > 1 and release[-1] == 0:
        release = release[:-1]
    return release
