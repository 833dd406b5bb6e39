"""The app of the workers that the tests start, and its tasks: ``python -m celery -A tests.integrations.celeries.app``.

Tasks wait at the gate of the test (``gate.py``), which so decides what runs at the same time as what.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from pathlib import Path
from typing import Any

from celery import Celery, Task, current_task
from celery.exceptions import SoftTimeLimitExceeded

import dhaga
from dhaga import socket
from dhaga.monkey import original

SETTINGS = json.loads(os.environ["CELERIES"])
app = Celery(SETTINGS["name"])
app.conf.update(SETTINGS["conf"])


def end_with_test() -> None:
    """End this process when the one that has started it is no more, however that came."""
    while os.read(0, 100):
        pass
    os.kill(os.getpid(), signal.SIGKILL)


threading.Thread(target=end_with_test, daemon=True).start()


def note(*words: object) -> None:
    """Write a line to the journal, which is there even if this process is killed at once."""
    with open(SETTINGS["journal"], "ab", buffering=0) as file:
        file.write(f"{' '.join(map(str, words))}\n".encode())


def pass_gate(name: str) -> None:
    with socket.create_connection(tuple(SETTINGS["gate"])) as sock:
        sock.sendall(f"{name} {os.getpid()}\n".encode())
        if not sock.recv(1):
            raise EOFError("the gate was taken down")


@app.task(name="wait")
def wait(name: str) -> str:
    pass_gate(name)
    return name


@app.task(name="wait-slowly", rate_limit="1/m")
def wait_slowly(name: str) -> str:
    pass_gate(name)
    return name


@app.task(name="add")
def add(x: int, y: int) -> int:
    return x + y


@app.task(name="total")
def total(numbers: list[int]) -> int:
    return sum(numbers)


@app.task(name="who-am-i", bind=True)
def who_am_i(self: Task[..., Any], name: str) -> list[str]:
    """Return who this is, by all that Celery offers, before a wait and after it."""
    before = identities(self)
    pass_gate(name)
    dhaga.sleep(0)
    return before + identities(self)


def identities(task: Task[..., Any]) -> list[str]:
    return [task.request.id, current_task.request.id, app.current_task.request.id, task.request.args[0]]


@app.task(name="threads")
def threads() -> int:
    """Count the OS threads of this worker."""
    return len(sys._current_frames())


@app.task(name="overstay", soft_time_limit=0.2)
def overstay_softly(name: str) -> str:
    try:
        pass_gate(name)
    except SoftTimeLimitExceeded:
        return "cleaned up in time"
    return "let through"


@app.task(name="overstay-hard", time_limit=0.3)
def overstay(name: str) -> None:
    try:
        pass_gate(name)
    finally:
        note("finally", name)


@app.task(name="hold")
def hold(name: str) -> None:
    """Wait at the gate, and tell how that ended."""
    try:
        pass_gate(name)
    finally:
        note("finally", name)


@app.task(name="hold-late", acks_late=True)
def hold_late(name: str) -> None:
    hold(name)


@app.task(name="try-again", bind=True, max_retries=3)
def try_again(self: Task[..., Any]) -> int:
    if self.request.retries < 2:
        raise self.retry(countdown=0.1)
    return self.request.retries


@app.task(name="fail")
def fail(text: str) -> None:
    raise ValueError(text)


@app.task(name="work", bind=True, acks_late=True)
def work(self: Task[..., Any], name: str) -> str:
    """Note the begin, wait at the gate, note the end."""
    note("begin", name, bool(self.request.delivery_info["redelivered"]))
    pass_gate(name)
    note("end", name)
    return name


@app.task(name="lose-worker", acks_late=True, reject_on_worker_lost=True)
def lose_worker(name: str) -> str:
    """Kill the worker the first time; a second time, return."""
    if was_noted(f"killed {name}"):
        return "done"
    note("killed", name)
    os.kill(os.getpid(), signal.SIGKILL)
    return "not reached"


@app.task(name="leave", acks_late=True, reject_on_worker_lost=True)
def leave(name: str) -> str:
    """End as no task should the first time; a second time, return."""
    if was_noted(f"left {name}"):
        return "done"
    note("left", name)
    raise GeneratorExit


@app.task(name="block")
def block(name: str) -> str:
    """Wait at the gate by a socket that knows nothing of dhagas."""
    with original("socket", "socket")() as sock:
        sock.connect(tuple(SETTINGS["gate"]))
        sock.sendall(f"{name} {os.getpid()}\n".encode())
        sock.recv(1)
    return name


def was_noted(line: str) -> bool:
    path = Path(SETTINGS["journal"])
    return path.exists() and line in path.read_text().splitlines()
