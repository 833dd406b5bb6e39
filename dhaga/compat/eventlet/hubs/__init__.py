"""``eventlet.hubs``: eventlet's API of the hub, and functions that wait for a file descriptor."""

from __future__ import annotations

from ._hub import HubError, IOClosed, get_default_hub, get_hub, notify_close, notify_opened, trampoline, use_hub

__all__ = [
    "HubError", "IOClosed", "get_default_hub", "get_hub", "notify_close", "notify_opened", "trampoline", "use_hub",
]  # fmt: skip
