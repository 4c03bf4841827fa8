"""What a link needs to know about a host; the inventory makes it, nothing in here reads files."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, kw_only=True, slots=True)
class SshSettings:
    """How to reach one host. What is None is left to ssh_config and its defaults."""

    name: str
    address: str
    port: int | None = None
    user: str | None = None
    identity_file: str | None = None
    jump: str | None = None
    alias: str | None = None
    ssh_config: str | None = None  # a file to read instead of the user's own (`ssh -F`)
    host_key: Literal["accept-new", "strict"] = "accept-new"
    forward_agent: bool = False
    connect_timeout: float | None = None
    banner_timeout: float = 45.0
    auth_timeout: float = 30.0
