"""Where the demo keeps its things: keys, the server's account, the model, the outputs; all below the cache folder."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from local import folders

if TYPE_CHECKING:
    from pathlib import Path

ALIAS = "prudent-gate-demo"


@dataclass(frozen=True, slots=True)
class Place:
    """The demo's folder."""

    root: Path

    @property
    def host_key(self) -> Path:
        """Give the server's own key."""
        return self.root / "host_key"

    @property
    def user_key(self) -> Path:
        """Give the key that the laptop side shows."""
        return self.root / "user_key"

    @property
    def authorized_keys(self) -> Path:
        """Give the file of keys that the server lets in."""
        return self.root / "authorized_keys"

    @property
    def known_hosts(self) -> Path:
        """Give the file in which the server's key is pinned."""
        return self.root / "known_hosts"

    @property
    def ssh_config(self) -> Path:
        """Give the file that says how to reach the server; `ssh -F` takes it too."""
        return self.root / "ssh_config"

    @property
    def sshd_config(self) -> Path:
        """Give OpenSSH's configuration."""
        return self.root / "sshd_config"

    @property
    def log(self) -> Path:
        """Give what the server writes."""
        return self.root / "server.log"

    @property
    def account(self) -> Path:
        """Give the record of the running server: kind, port, pid and start time."""
        return self.root / "server.json"

    @property
    def lock(self) -> Path:
        """Give the lock that one `up` or `down` at a time holds."""
        return self.root / "lock"

    @property
    def material(self) -> Path:
        """Give the folder of model and dataset."""
        return self.root / "material"

    @property
    def model(self) -> Path:
        """Give the tiny model."""
        return self.material / "model"

    @property
    def dataset(self) -> Path:
        """Give the conversations."""
        return self.material / "train.jsonl"

    @property
    def output(self) -> Path:
        """Give the folder of hidden states."""
        return self.root / "hidden_states"

    @property
    def stack_python(self) -> Path:
        """Give the Python of the CPU stack."""
        return folders.cache() / "stack-cpu" / "bin" / "python"


def here() -> Place:
    """Give the demo's folder, made if need be."""
    root = folders.cache() / "demo"
    root.mkdir(mode=0o700, parents=True, exist_ok=True)
    return Place(root)


def write(path: Path, text: str | bytes) -> None:
    """Put a private file in its place, whole."""
    half = path.with_name(f".{path.name}.new")
    half.unlink(missing_ok=True)
    half.touch(mode=0o600)
    half.write_bytes(text if isinstance(text, bytes) else text.encode())
    half.replace(path)
