"""Sending output files: what is asked for; docs/wire.md has the frames."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, kw_only=True, slots=True)
class SendRequest:
    """Stream files of an output folder: its manifest, where wanted, then samples in this order.

    `offsets` says, by index, where a sample's sending begins (else at its start).
    """

    output: str
    manifest: bool = False
    indices: tuple[int, ...] = ()
    offsets: dict[str, int] = field(default_factory=dict)
