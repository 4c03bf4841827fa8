"""What the gate saved: faults that would each have shown only after a load, and what those loads take. Pure.

The rule is told in docs/report.md: an error counts where it would have ended a run after its load had begun, and the
same error in many places counts once, because whoever met it would have mended all of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from local import cost
from local.signatures import brief

if TYPE_CHECKING:
    from collections.abc import Iterable

    from remote.schema import Check, Finding

MINUTE = 60
HOUR = 3600
# Levels whose errors cost a load, less the rules that end a run before its load begins, or that are the gate's own.
LOADS: dict[str, frozenset[str]] = {
    "static": frozenset({"unresolved-import", "syntax", "value-type"}),
    "signature": frozenset({"missing-module", "missing-symbol"}),
    "contract": frozenset(
        {
            "architecture", "constant-missing", "layers", "max-model-len", "model-code-missing", "model-config",
            "model-missing", "tensor-parallel", "version-pair-bad",
        }
    ),
    "rehearsal": frozenset(
        {"rehearsal-in-parts", "rehearsal-no-model", "rehearsal-no-reference", "rehearsal-timeout", "overlay-failed"}
    ),
}  # fmt: skip
# What is called to describe the engine is called before there is one: it fails within seconds, in every release seen.
BEFORE = ("vllm.config", "vllm.engine.arg_utils", "vllm.envs", "transformers", "tokenizers", "datasets")
# Of the inputs only these are met while the model loads, or hours after it.
INPUTS = frozenset({"output-space", "model-shard-damaged", "model-shard-missing", "model-shard-sparse"})


@dataclass(frozen=True, kw_only=True, slots=True)
class Saved:
    """Faults found before the load, the seconds that one load takes (None: not known), and what all of them cost."""

    faults: int
    load: float | None = None
    assumed: bool = False
    gpus: int | None = None
    usd: float | None = None

    def __str__(self) -> str:
        """Say it as the gate does: 3 faults found before the load: about 54 min × 8 GPUs ($32.40)."""
        head = f"{self.faults} fault{'' if self.faults == 1 else 's'} found before the load"
        if self.load is None:
            return head
        gpus = f" × {self.gpus} GPU{'' if self.gpus == 1 else 's'}" if self.gpus else ""
        price = f" ({cost.money(self.usd)})" if self.usd is not None else ""
        guess = ", if a load takes as long as it does elsewhere" if self.assumed else ""
        return f"{head}: about {_span(self.faults * self.load)}{gpus}{price}{guess}"


def reckon(
    faults: int,
    *,
    load: float | None,
    assumed: bool = False,
    gpus: int | None = None,
    usd_per_hour: float | None = None,
) -> Saved | None:
    """Give what so many faults would have cost; None where there was none."""
    if faults <= 0:
        return None
    total = None if load is None else faults * load
    return Saved(faults=faults, load=load, assumed=assumed, gpus=gpus, usd=cost.spent(usd_per_hour, total))


def faults(checks: Iterable[Check]) -> int:
    """Count the distinct faults that would each have cost one load."""
    return len({_key(check.id, finding) for check in checks for finding in check.findings if counts(check.id, finding)})


def counts(level: str, finding: Finding) -> bool:
    """Say whether a finding would have ended a run after its load had begun."""
    if finding.severity != "error":
        return False
    if level == "inputs":
        return finding.rule in INPUTS
    return level in LOADS and finding.rule not in LOADS[level] and not _before(finding.callee or "")


def _before(callee: str) -> bool:
    """Say whether a callee (`module:name` or `module.name`) belongs to what runs before the load."""
    return any(callee == module or callee.startswith((f"{module}.", f"{module}:")) for module in BEFORE)


def _key(level: str, finding: Finding) -> tuple[str, ...]:
    """Name the fault: the same callee refusing the same thing is one, however many lines call it."""
    if finding.callee:
        signature = brief(finding.signature) if finding.signature else ""
        return (finding.rule, finding.callee, signature, finding.message)
    return (level, finding.rule, finding.file or "", finding.message)


def _span(seconds: float) -> str:
    if seconds < 2 * MINUTE:
        return f"{seconds:.0f} s"
    if seconds < 2 * HOUR:
        return f"{seconds / MINUTE:.0f} min"
    return f"{seconds / HOUR:.1f} h"
