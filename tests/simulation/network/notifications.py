"""The notification server with its listeners, under faults of the network: each listener hears each message once."""

from __future__ import annotations

import time
from functools import partial
from typing import Any

from examples.notifications.client_protocols import Heard
from examples.notifications.simulated import TOPIC, listening

LISTENERS = 4
MESSAGES = 5

FAULTS: dict[str, Any] = {
    "faults": [
        {"kind": "partition", "between": ["client", "server"], "every": 60, "seconds": [1, 20]},
        {"kind": "reset", "host": "client", "every": 30, "share": 0.5},
        {"kind": "stall", "host": "client", "every": 40, "seconds": [1, 10], "share": 0.3},
    ]
}

SILENT: dict[str, Any] = {"faults": [{"kind": "half-open", "host": "server", "every": 60, "share": 0.5}]}
"""Half of the connections break off at the server, of which their listeners hear nothing."""


def program() -> None:
    heard: list[list[str]] = [[] for _ in range(LISTENERS)]
    with listening([partial(note, each) for each in heard]) as service:
        for number in range(MESSAGES):
            service.publish(TOPIC, b"message %d" % number)
            time.sleep(30)
        time.sleep(1000)
    assert heard == [[f"message {each}" for each in range(MESSAGES)]] * LISTENERS


def note(heard: list[str], message: Heard) -> None:
    heard.append(message["data"])
