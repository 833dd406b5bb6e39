"""How to run a server. Not here: the server, which needs packages that its command line does without."""

from __future__ import annotations

from dataclasses import dataclass

from .broker import DEFAULTS, Limits
from .service import HEARTBEAT
from .socket_clients import Policy
from .tokens import Tokens


@dataclass(frozen=True)
class Settings:
    """How to run a server."""

    host: str = "127.0.0.1"
    port: int = 0
    line_port: int = 0
    clients: int = 12_000  # of each of the two addresses
    limits: Limits = DEFAULTS
    tokens: Tokens | None = None
    policy: Policy = "disconnect"
    heartbeat: float = HEARTBEAT
    redis: str | None = None
    stream: str = "notifications"
