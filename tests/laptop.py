"""What a test's laptop is: an inventory, and state and cache folders of its own."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def environment(folder: Path, **more: str) -> dict[str, str]:
    """Give what `fab` sees on a laptop whose `inventory.toml`, state and cache lie in a folder, and nothing of ours."""
    return {
        **{key: value for key, value in os.environ.items() if not key.startswith(("PRUDENT", "FABRIC"))},
        "FABRIC_INVENTORY": str(folder / "inventory.toml"),
        "PRUDENT_GATE_STATE": str(folder / "state"),
        "PRUDENT_GATE_CACHE": str(folder / "cache"),
        **more,
    }
