"""Dhaga's counterparts of names of gevent, eventlet, trio and asyncio. The error for ``dhaga.NAME`` suggests them."""

from __future__ import annotations

import sys
from dis import opname
from types import FrameType

GEVENT, EVENTLET, ASYNCIO, TRIO, STANDARD = "gevent's", "eventlet's", "asyncio's", "trio's", "threading's"

SCOPE = "dhaga.Scope, whose block ends when all of its dhagas have"
MAP = "dhaga.pool.Pool.map or dhaga.futures.Executor.map"
POOL = "dhaga.pool.Pool(max_pending=...), whose submit() waits for room"
LATER = "dhaga.spawn_later"
CANCEL = "Dhaga.cancel()"
TIMEOUT = "dhaga.fail_after(seconds) or dhaga.Timeout(seconds) around the call"
PATCH = "python -m dhaga program.py, or dhaga.monkey.patch()"
NOTHING_TO_RUN = "not needed: main code may make calls that wait; in a coroutine await dhaga.aio.run_in_dhaga(fn)"

COUNTERPARTS = {
    "AsyncResult": (GEVENT, "dhaga.futures.Future"),
    "BoundedSemaphore": (GEVENT, "dhaga.threading.BoundedSemaphore"),
    "Channel": (GEVENT, "dhaga.queue.Queue"),
    "Condition": (STANDARD, "dhaga.threading.Condition"),
    "DummySemaphore": (GEVENT, "contextlib.nullcontext"),
    "Event": (STANDARD, "dhaga.threading.Event"),
    "Executor": ("concurrent.futures'", "dhaga.futures.Executor"),
    "Future": (ASYNCIO, "dhaga.futures.Future"),
    "GreenPile": (EVENTLET, MAP),
    "GreenPool": (EVENTLET, POOL),
    "GreenThread": (EVENTLET, "dhaga.Dhaga"),
    "Greenlet": (GEVENT, "dhaga.Dhaga, made by dhaga.spawn"),
    "GreenletExit": (GEVENT, "dhaga.Cancelled"),
    "Group": (GEVENT, SCOPE),
    "JoinableQueue": (GEVENT, "dhaga.queue.Queue"),
    "LightQueue": (EVENTLET, "dhaga.queue.SimpleQueue"),
    "LifoQueue": (STANDARD, "dhaga.queue.LifoQueue"),
    "Lock": (STANDARD, "dhaga.threading.Lock"),
    "Nursery": (TRIO, SCOPE),
    "CancelScope": (TRIO, "dhaga.Scope, dhaga.move_on_after or dhaga.fail_after"),
    "CancelledError": (ASYNCIO, "dhaga.Cancelled"),
    "Pool": (GEVENT, POOL),
    "PriorityQueue": (STANDARD, "dhaga.queue.PriorityQueue"),
    "Queue": (STANDARD, "dhaga.queue.Queue"),
    "RLock": (STANDARD, "dhaga.threading.RLock"),
    "Semaphore": (STANDARD, "dhaga.threading.Semaphore"),
    "SimpleQueue": (STANDARD, "dhaga.queue.SimpleQueue"),
    "StreamServer": (GEVENT, "dhaga.servers.TCPServer"),
    "Task": (ASYNCIO, "dhaga.Dhaga"),
    "TaskGroup": (ASYNCIO, SCOPE),
    "Thread": (STANDARD, "dhaga.threading.Thread, or dhaga.spawn"),
    "ThreadPool": (GEVENT, "dhaga.OffloadPool"),
    "ThreadPoolExecutor": ("concurrent.futures'", "dhaga.futures.Executor"),
    "ThreadResult": (GEVENT, "dhaga.offload"),
    "TimeoutError": (STANDARD, "the built-in TimeoutError"),
    "WSGIServer": (GEVENT, "dhaga.http.wsgi.Server, or python -m dhaga serve"),
    "checkpoint": (TRIO, "dhaga.sleep()"),
    "connect": (EVENTLET, "dhaga.socket.create_connection"),
    "create_task": (ASYNCIO, "dhaga.spawn"),
    "current_task": (ASYNCIO, "dhaga.current"),
    "ensure_future": (ASYNCIO, "dhaga.spawn"),
    "eventlet": (EVENTLET, "dhaga"),
    "gather": (ASYNCIO, "dhaga.Scope: spawn in its block, then result() of each; or dhaga.pool.Pool.map"),
    "get_hub": (GEVENT, "dhaga.current().scheduler"),
    "getcurrent": (GEVENT, "dhaga.current"),
    "greenthread": (EVENTLET, "dhaga.spawn and dhaga.Dhaga"),
    "idle": (GEVENT, "dhaga.sleep(), in a block of dhaga.priority(dhaga.LOW)"),
    "imap": (GEVENT, MAP),
    "imap_unordered": (GEVENT, "dhaga.pool.Pool.imap_unordered"),
    "import_patched": (EVENTLET, "dhaga.monkey.patched_imports"),
    "iwait": (GEVENT, "dhaga.as_completed"),
    "joinall": (GEVENT, "dhaga.Scope (leave the block), or dhaga.wait([...])"),
    "kill": (GEVENT, CANCEL),
    "killall": (GEVENT, "Scope.cancel(), or cancel() of each"),
    "listen": (EVENTLET, "dhaga.socket.create_server"),
    "map": (GEVENT, MAP),
    "monkey_patch": (EVENTLET, PATCH),
    "open_nursery": (TRIO, SCOPE),
    "open_tcp_stream": (TRIO, "dhaga.socket.create_connection"),
    "patch_all": (GEVENT, PATCH),
    "reinit": (GEVENT, "not needed: a forked child gets schedulers of its own"),
    "run": (ASYNCIO, NOTHING_TO_RUN),
    "run_in_dhaga": ("dhaga.aio's", "dhaga.aio.run_in_dhaga"),
    "run_in_executor": (ASYNCIO, "dhaga.offload"),
    "serve": (EVENTLET, "dhaga.servers.TCPServer"),
    "signal_handler": (GEVENT, "signal.signal, or dhaga.signal"),
    "spawn_after": (EVENTLET, LATER),
    "spawn_after_local": (EVENTLET, LATER),
    "spawn_n": (EVENTLET, "dhaga.spawn"),
    "spawn_raw": (GEVENT, "dhaga.spawn"),
    "start_soon": (TRIO, "Scope.spawn"),
    "timeout": (ASYNCIO, TIMEOUT),
    "timeout_after": ("curio's", TIMEOUT),
    "to_thread": (ASYNCIO, "dhaga.offload"),
    "tpool": (EVENTLET, "dhaga.offload"),
    "wait_for": (ASYNCIO, TIMEOUT),
    "wait_read": (GEVENT, "dhaga.select.select"),
    "wait_write": (GEVENT, "dhaga.select.select"),
    "with_timeout": (GEVENT, TIMEOUT),
    "wrap_ssl": (EVENTLET, "wrap_socket of a dhaga.ssl.SSLContext"),
}
"""The names of other libraries, each with its library and the replacement in Dhaga."""


def missing_name(name: str) -> AttributeError | ImportError:
    """Return the error for a missing ``dhaga.NAME``.

    In a ``from`` import of a name with a counterpart, the error is an ImportError, because the interpreter would
    replace the text of an AttributeError.
    """
    text = f"module 'dhaga' has no attribute {name!r}"
    if name not in COUNTERPARTS:
        return AttributeError(text, name=name)
    origin, counterpart = COUNTERPARTS[name]
    text = f"{origin} {name} is {counterpart}"
    if is_from_import(sys._getframe(2)):
        return ImportError(f"cannot import name {name!r} from 'dhaga': {text}", name="dhaga")
    return AttributeError(f"module 'dhaga' has no attribute {name!r}: {text}", name=name)


def is_from_import(frame: FrameType) -> bool:
    """Return whether a frame is executing ``from module import name``."""
    return frame.f_lasti >= 0 and opname[frame.f_code.co_code[frame.f_lasti]] == "IMPORT_FROM"
