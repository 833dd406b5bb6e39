"""The server of OS threads: who leaves in the middle disturbs nobody."""

from __future__ import annotations

import os
import socket

from dhaga.debug import inspect
from dhaga.debug._remote.client import InspectorClient


def test_one_who_goes_in_the_middle_leaves_others_their_answers(line: InspectorClient) -> None:
    for _ in range(50):
        with socket.socket(socket.AF_UNIX) as hasty:
            hasty.connect(str(inspect().path))
            hasty.sendall(b'{"ask": "table"}\n{"ask":')
    assert line.ask("table")["pid"] == os.getpid()
