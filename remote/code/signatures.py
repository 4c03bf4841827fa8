"""The signature level: every site of the gated modules against what is imported; parameter lists; constants."""

from __future__ import annotations

import builtins
import collections
import difflib
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from remote.code import binding, callsites, imports, references
from remote.code.references import Attribute, Missing, Module, Unknown
from remote.schema import Finding

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from remote.code.callsites import CallSite, NameSite, Place, Sites

LONGEST = 2000  # characters of a signature in a finding
STANDARD = "standard library"


@dataclass(slots=True)
class Bound:
    """What holding the sites of modules against the run time gave."""

    findings: list[Finding] = field(default_factory=list)
    calls: int = 0
    names: int = 0
    skipped: collections.Counter[str] = field(default_factory=collections.Counter)
    unread: list[str] = field(default_factory=list)


def bind(modules: Iterable[str], overlay: str) -> Bound:
    """Hold every site of the imported modules against what is there at run time."""
    bound = Bound()
    for name in modules:
        file = imports.origin(name)
        try:
            sites = callsites.find(Path(file or "").read_text(encoding="utf-8"), name, package=_is_package(name))
        except (OSError, SyntaxError, UnicodeDecodeError):
            bound.unread.append(name)
            continue
        _bind_module(bound, sites, imports.shown(file or name, overlay))
    return bound


def parameters(symbols: Iterable[str]) -> tuple[dict[str, str], list[Finding]]:
    """Give the printed parameter list of each `module:Name.name`; a finding for each that is not there."""
    return _sorted({symbol: _parameters(symbol) for symbol in symbols})


def constants(expected: Mapping[str, Any]) -> tuple[dict[str, str], list[Finding]]:
    """Give what each `module:NAME` holds; a finding for each that is not there or holds something else."""
    found, findings = _sorted({symbol: _constant(symbol) for symbol in expected})
    for symbol, value in expected.items():
        if symbol in found and found[symbol] != repr(value):
            message = f"{symbol} is {found[symbol]}, the job expects {value!r}"
            findings.append(Finding(rule="constant-differs", message=message, callee=symbol))
    return found, findings


def _parameters(symbol: str) -> str | Finding:
    try:
        return binding.text(binding.signature_of(_symbol(symbol).value))
    except (binding.NoSignature, Unknown) as error:
        return f"({error})"
    except Missing as missing:
        return Finding(rule="missing-symbol", message=_is_missing(missing, symbol), callee=symbol)


def _constant(symbol: str) -> str | Finding:
    try:
        return repr(_symbol(symbol).value)[:LONGEST]
    except Unknown as error:
        return f"({error})"
    except Missing as missing:
        return Finding(rule="missing-symbol", message=_is_missing(missing, symbol), callee=symbol)


def _sorted(told: Mapping[str, str | Finding]) -> tuple[dict[str, str], list[Finding]]:
    texts = {symbol: said for symbol, said in told.items() if isinstance(said, str)}
    return texts, [said for said in told.values() if isinstance(said, Finding)]


def _bind_module(bound: Bound, sites: Sites, file: str) -> None:
    for call in sites.calls:
        _bind_call(bound, call, sites, file)
    for name in sites.names:
        _bind_name(bound, name, sites, file)
    bound.findings.sort(key=lambda finding: (finding.file or "", finding.line or 0, finding.column or 0))


def _bind_call(bound: Bound, site: CallSite, sites: Sites, file: str) -> None:
    try:
        bound.findings += _call(site, sites, file)
        bound.calls += 1
    except (Unknown, binding.NoSignature) as reason:
        bound.skipped[str(reason)] += 1
    except Missing:
        bound.skipped["name not there"] += 1
    except Exception as error:  # noqa: BLE001 - lazy stand-ins of libraries raise anything at any touch
        bound.skipped[f"{type(error).__name__} when touched"] += 1


def _bind_name(bound: Bound, site: NameSite, sites: Sites, file: str) -> None:
    try:
        finding = _name(site, sites, file)
    except Unknown:
        return
    except Exception as error:  # noqa: BLE001 - as above
        bound.skipped[f"{type(error).__name__} when touched"] += 1
        return
    bound.names += 1
    bound.findings += [finding] if finding else []


def _call(site: CallSite, sites: Sites, file: str) -> list[Finding]:
    """Bind one call; raises Unknown, Missing or NoSignature where that cannot be."""
    if site.guard:
        raise Unknown(site.guard)
    if site.callee is None:
        raise Unknown(STANDARD if hasattr(builtins, site.written) else "callee not known")
    thing = references.callee(site.callee)
    name = references.describe(thing.value)
    if name.split(".", 1)[0] in sys.stdlib_module_names:
        raise Unknown(STANDARD)
    call = binding.Call(
        positional=len(site.positional),
        keywords=tuple(keyword for keyword, _ in site.keywords),
        star=site.star,
        double_star=site.double_star,
    )
    signature = _cut(binding.text(binding.signature_of(thing.value)))
    return [
        _finding(
            problem.rule,
            f"{_short(name)} {problem.message}",
            file=file,
            place=_at(problem, site),
            sites=sites,
            callee=name,
            signature=signature,
            sure=thing.exact,
        )
        for problem in binding.held(thing.value, call)
    ]


def _name(site: NameSite, sites: Sites, file: str) -> Finding | None:
    """Look for one name; raises Unknown where it cannot be said whether it is there."""
    if site.guard:
        raise Unknown(site.guard)
    try:
        references.resolve(site.reference)
    except Missing as missing:
        absent = isinstance(missing.reference, Module)
        if not (site.late if absent else missing.reference == site.reference):
            raise Unknown("an earlier name is not there") from missing
        return _finding(
            "missing-module" if absent else "missing-attribute",
            _is_missing(missing, site.written),
            file=file,
            place=site.place,
            sites=sites,
            callee=f"{missing.owner}.{missing.name}".removeprefix("an object of "),
            sure=missing.sure,
        )
    return None


def _finding(
    rule: str,
    message: str,
    *,
    file: str,
    place: Place,
    sites: Sites,
    callee: str,
    sure: bool,
    signature: str | None = None,
) -> Finding:
    return Finding(
        rule=rule,
        message=message,
        file=file,
        line=place.line,
        column=place.column,
        end_column=place.end_column,
        text=sites.lines[place.line - 1],
        callee=callee,
        signature=signature,
        severity="error" if sure else "warning",
    )


def _at(problem: binding.Problem, site: CallSite) -> Place:
    """Point at the argument that is wrong, or at the callee where one is missing."""
    if problem.keyword is not None:
        return next(place for keyword, place in site.keywords if keyword == problem.keyword)
    if problem.index is not None and problem.index < len(site.positional):
        return site.positional[problem.index]
    return site.place


def _symbol(symbol: str) -> references.Thing:
    module, _, path = symbol.partition(":")
    reference: references.Reference = Module(module)
    for part in filter(None, path.split(".")):
        reference = Attribute(reference, part)
    return references.resolve(reference)


def _is_missing(missing: Missing, wanted: str) -> str:
    close = difflib.get_close_matches(missing.name, missing.near, n=1)
    hint = f"; did it become {close[0]!r}?" if close else ""
    return f"{missing.owner} has no {missing.name!r} (wanted by {wanted}){hint}"


def _short(name: str) -> str:
    """Give the last one or two words of a full name: the class and its method, or the function."""
    first, _, last = name.rpartition(".")
    owner = first.rpartition(".")[2]
    return f"{owner}.{last}" if owner[:1].isupper() else last


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 3]}..."


def _is_package(name: str) -> bool:
    return hasattr(sys.modules.get(name), "__path__")
