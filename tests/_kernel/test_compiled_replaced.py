"""A program may replace a compiled method by another function: on the class, on the object, in a subclass.

The function is then called as often as in pure Python: one program counts its calls in both modes.
"""

from __future__ import annotations

import os
import subprocess
import sys
from types import ModuleType

import pytest

from dhaga._kernel.fast import accelerator
from tests._kernel.compiled_methods import compiled_methods

running = pytest.mark.skipif(
    not isinstance(accelerator.fast_paths, ModuleType), reason=f"pure: {accelerator.fast_paths!s:.5}…"
)

COUNTING = """
import contextlib, importlib, sys
import dhaga
from dhaga import queue, socket, threading
from dhaga.http.wsgi import Server
from dhaga.testing import virtual_clock

METHODS = [(getattr(importlib.import_module(module), kind), name)
           for module, kind, name in map(str.split, sys.stdin)]
MADE = set()


def scenario(changed=lambda what: what, classes={}):
    "Use all of it, from two dhagas."
    def new(kind, *arguments):
        MADE.add(kind)
        return changed(classes.get(kind, kind)(*arguments))

    lock, rlock, few = new(threading.Lock), new(threading.RLock), new(threading.Semaphore)
    bounded, event = new(threading.BoundedSemaphore), new(threading.Event)
    items, simple, mine = new(queue.Queue), new(queue.SimpleQueue), new(threading.local)
    near, far = socket.socketpair()

    def contend(what):
        with what:
            dhaga.sleep(0)
        if what.acquire(timeout=0.01):
            what.release()

    def first():
        for each in (lock, rlock, few, bounded):
            contend(each)
        with rlock, rlock:
            dhaga.sleep(0.001)
        event.wait(0.5)
        event.wait()
        for each in (items, simple):
            each.get()
            each.get(timeout=0.1)
        mine.name = "first"
        mine.name.upper()
        near.sendall(near.recv(10))
        near.recv_into(bytearray(5))

    def second():
        for each in (lock, rlock, few, bounded):
            contend(each)
        with rlock, rlock:
            dhaga.sleep(0.001)
        event.set()
        for each in (items, simple):
            each.put(1)
            each.put(2)
        far.send(b"abc")
        far.sendall(b"abc")
        far.sendall(far.recv(10))

    both = [dhaga.spawn(each) for each in (first, second)]
    for each in both:
        each.join()
    for each in both:
        each.result()
    near.close(), far.close()


def serve():
    "Use the methods of the HTTP server. How often it parks depends on the clients."
    def app(environ, start_response):
        start_response("200 OK", [("Content-Type", "text/plain")])
        return [b"answer"]

    with Server(app) as server, socket.create_connection(server.address) as client:
        for _ in range(4):
            client.sendall(b"GET / HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n")
            client.recv(10_000)


def counting(function, seen):
    return lambda self, *args, **kwargs: (seen.append(1), function(self, *args, **kwargs))[1]


def on_class(kind, name, seen):
    original = kind.__dict__.get(name)
    setattr(kind, name, counting(getattr(kind, name), seen))
    try:
        serve() if kind.__module__.startswith("dhaga.http.") else scenario()
    finally:
        if original is None:
            delattr(kind, name)
        else:
            setattr(kind, name, original)


def in_subclass(kind, name, seen):
    sub = type("Sub", (kind,), {"__slots__": (), name: counting(getattr(kind, name), seen)})
    scenario(classes={kind: sub})


def on_object(kind, name, seen):
    def change(what):
        if type(what) is kind:
            with contextlib.suppress(AttributeError):
                bound = getattr(what, name)
                setattr(what, name, lambda *args, **kwargs: (seen.append(1), bound(*args, **kwargs))[1])
        return what

    scenario(change)


with virtual_clock():
    scenario()
    for kind, name in METHODS:
        for way in (on_class, in_subclass, on_object) if kind in MADE else (on_class,):
            seen = []
            way(kind, name, seen)
            print(kind.__name__, name, way.__name__, len(seen))
    scenario()
"""


PARKING = ("prepare_park", "park_within", "_park", "_wait_for_hand_over")
"""Steps of a park, which C takes in one: functions that replace these are called only from Python."""


def counted(**environ: str) -> list[str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("DHAGA_")}
    methods = "".join(
        f"{owner.__module__} {owner.__name__} {name}\n" for owner, name in compiled_methods() if name not in PARKING
    )
    done = subprocess.run(
        [sys.executable, "-c", COUNTING], input=methods, capture_output=True, text=True, timeout=100, env=kept | environ
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


@running
def test_a_replaced_method_is_called_as_often_as_in_python() -> None:
    by_c, by_python = counted(), counted(DHAGA_FAST_PATHS="0")
    assert by_c == by_python
    assert sum(line.split()[-1] != "0" for line in by_c) > 50
