"""Subclasses of what the patch replaces may have attributes of their own, also of names that one would choose first."""

from __future__ import annotations

import pytest

from tests.kit.scripts import prints

pytestmark = pytest.mark.once

SUBCLASS = """
import dhaga.monkey; dhaga.monkey.patch()
import os, queue, socket, subprocess, threading, time
def beside(*calls):
    threads = [threading.Thread(target=each) for each in calls]
    for each in threads: each.start()
    for each in threads: each.join()
"""
"""Begin of a program with a subclass whose attributes have the names that ours had, or that the standard's has."""

SUBCLASSES = {
    "Queue": (
        "_items _size _take _store _stock _getters _putters _joiners _watchers _watched _replaced _admit _handed_over",
        """
items, got = Mine(1), []
beside(lambda: [items.put(n) for n in range(4)], lambda: [got.append(items.get(timeout=9)) for n in range(4)])
assert got == [0, 1, 2, 3] and items.empty() and not items.full() and not items.qsize(), got
for _ in got: items.task_done()
items.join()
with items.not_empty: assert not items.not_empty.wait(0.001)
beside(lambda: got.append(items.get(timeout=9)), lambda: items.put(4))
assert got[-1] == 4
""",
        "queue.Queue",
    ),
    "SimpleQueue": (
        "_items _getters _handed_over _size_in_all",
        """
items, got = Mine(), []
beside(lambda: got.append(items.get(timeout=9)), lambda: items.put(4))
items.put(5)
assert got == [4] and items.qsize() == 1 and items.get() == 5
""",
        "queue.SimpleQueue",
    ),
    "Thread": (
        "_start_event _end_lock _starter _is_stopped _started_at _tstate_lock _check_initialised _tell_started",
        """
got = []
thread = Mine(target=lambda: got.append(threading.current_thread() is thread))
thread.start(); thread.join()
assert got == [True] and not thread.is_alive(), got
""",
        "threading.Thread",
    ),
    "Event": (
        "_waiters _spare_queue",
        """
event, got = Mine(), []
beside(lambda: got.append(event.wait(9)), event.set)
event.clear()
assert got == [True] and not event.wait(0.001)
""",
        "threading.Event",
    ),
    "Semaphore": (
        "_waiters _hand_out_permits _give_back",
        """
permits = Mine(1)
def use():
    with permits: time.sleep(0.001)
beside(use, use, use)
assert permits.acquire(False) and not permits.acquire(False)
""",
        "threading.Semaphore",
    ),
    "Barrier": (
        "_condition _generation _open _wait_for_others",
        """
barrier = Mine(2)
beside(barrier.wait, barrier.wait)
beside(barrier.wait, barrier.wait)
assert not barrier.n_waiting and not barrier.broken
""",
        "threading.Barrier",
    ),
    "Condition": (
        "_owned_lock _move_first_waiter",
        """
condition, got = Mine(), []
def wait():
    with condition: got.append(condition.wait(9))
def notify():
    with condition: condition.notify()
beside(wait, notify)
assert got == [True]
""",
        "threading.Condition",
    ),
    "local": (
        "_namespaces",
        """
mine, got = Mine(), []
mine.value = 1
beside(lambda: got.append(hasattr(mine, "value")))
assert got == [False] and mine.value == 1
""",
        "threading.local",
    ),
    "socket": (
        "watcher watchers recv_all call_timeout make_blocking",
        """
listener = Mine()
listener.bind(("127.0.0.1", 0)); listener.listen()
client, got = Mine(), []
beside(lambda: client.connect(listener.getsockname()), lambda: got.append(listener.accept()[0]))
server = got.pop()
beside(lambda: got.append(client.recv(3, socket.MSG_WAITALL)), lambda: server.sendall(b"abc"))
client.settimeout(0.001)
try: client.recv(1)
except TimeoutError: got.append("late")
client.setblocking(False); client.setblocking(True)
assert got == [b"abc", "late"]
for each in (client, server, listener): each.close()
""",
        "socket.socket",
    ),
    "Popen": (
        "_park_until_end",
        """
process = Mine(["cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
assert process.communicate(b"x") == (b"x", None) and process.wait() == 0
""",
        "subprocess.Popen",
    ),
}
"""By class: plausible names, each once ours; a use of the class ``Mine``; the class that it derives from."""

WAYS = {
    "set": """
    def __init__(self, *args, **kw):
        base.__init__(self, *args, **kw)
        for name, value in OWN.items(): setattr(self, name, value)""",
    "methods": "locals().update(dict.fromkeys(OWN, lambda self, *args: 1))",
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", SUBCLASSES)
def test_a_subclass_may_have_attributes_of_plausible_names(kind: str, way: str) -> None:
    own, use, base = SUBCLASSES[kind]
    program = (
        f"{SUBCLASS}base, OWN = {base}, dict.fromkeys({own.split()!r}, 'mine')\nclass Mine(base):\n    {WAYS[way]}\n"
    )
    assert prints(f"{program}{use}print('works')") == ["works"]
