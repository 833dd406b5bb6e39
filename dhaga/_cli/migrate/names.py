"""Dhaga's counterparts of names in gevent, eventlet and similar packages, and the differences in behavior.

``dhaga._counterparts`` has the counterparts of single names; the error for an unknown ``dhaga.NAME`` also uses them.
This module has the counterparts that depend on a name's module, and the names that Dhaga also has.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import NamedTuple

from ..._counterparts import COUNTERPARTS, LATER, NOTHING_TO_RUN, PATCH

IMITATED = ("gevent", "eventlet")
"""Libraries whose programs ``python -m dhaga --as`` runs unchanged."""

STANDARD = ("threading",)
"""Standard modules whose uses need no change, because ``python -m dhaga`` patches them."""

LIBRARIES = {
    **dict.fromkeys((*IMITATED, *STANDARD), ""),
    "greenlet": "",
    "psycogreen": "not needed: the patch makes psycopg2 park (dhaga.integrations.psycopg2)",
    "geventwebsocket": "simple-websocket or flask-sock, which upgrade on dhaga.http.wsgi.Server",
    "gevent_openssl": "not needed: the patch makes pyOpenSSL park",
    "sslgevent": "not needed: the patch makes ssl park",
}
"""The packages whose uses are reported. A non-empty text is the counterpart of the whole package."""

FACES = {
    **{f"gevent.{name}": f"dhaga.{name}" for name in ("select", "selectors", "socket", "ssl", "subprocess", "time")},
    **{
        f"eventlet.green.{name}": f"dhaga.{name}"
        for name in ("os", "select", "selectors", "socket", "ssl", "subprocess", "thread", "threading", "time")
    },
    "eventlet.green.Queue": "dhaga.queue",
    "gevent.thread": "dhaga.thread",
    "gevent.threading": "dhaga.threading",
}
"""Modules whose counterpart is a module of Dhaga with the same contract as the standard module."""

SAME = {
    **{f"{library}.{name}": name for library in IMITATED for name in ("sleep", "spawn", "Timeout")},
    "gevent.spawn_later": "spawn_later",
    "gevent.hub.sleep": "sleep",
    "gevent.timeout.Timeout": "Timeout",
    "eventlet.greenthread.sleep": "sleep",
    "eventlet.greenthread.spawn": "spawn",
    "eventlet.timeout.Timeout": "Timeout",
}
"""Paths of names that Dhaga also has, each with Dhaga's name."""

FUTURE = "dhaga.futures.Future: set_result(), set_exception(), result()"
GREEN = "dhaga.monkey.patched_imports, or the standard module in a patched program"
SEMAPHORE = "dhaga.threading.Semaphore, or dhaga.CapacityLimiter"
NONE = "no counterpart"

OWN = {
    **{name: f"dhaga.{own}" for name, own in SAME.items()},
    **FACES,
    "gevent": "dhaga",
    "gevent.Greenlet.spawn": "dhaga.spawn",
    "gevent.Greenlet.spawn_later": LATER,
    "gevent.ares": "not needed: the system's resolver looks up names, in OS threads",
    "gevent.backdoor": "python -m dhaga dump PID, python -m dhaga top PID",
    "gevent.baseserver": "dhaga.servers.TCPServer",
    "gevent.config": "Dhaga's environment variables: see docs/reference/environment.md",
    "gevent.core": "asyncio's loop: dhaga.current().scheduler.loop",
    "gevent.event": "dhaga.threading and dhaga.futures",
    "gevent.event.Event": "dhaga.threading.Event",
    "gevent.events": NONE,
    "gevent.exceptions": "dhaga.Cancelled, dhaga.Deadlock",
    "gevent.exceptions.LoopExit": "dhaga.Deadlock",
    "gevent.fileobject": "dhaga.open",
    "gevent.fork": "os.fork of a patched program, or dhaga.os.fork",
    "gevent.getswitchinterval": "sys.getswitchinterval",
    "gevent.greenlet": "dhaga.Dhaga",
    "gevent.hub": "dhaga.current().scheduler",
    "gevent.hub.LoopExit": "dhaga.Deadlock",
    "gevent.hub.signal": "signal.signal, or dhaga.signal",
    "gevent.local": "dhaga.threading.local",
    "gevent.lock": "dhaga.threading",
    "gevent.lock.Semaphore": SEMAPHORE,
    "gevent.monkey": PATCH,
    "gevent.monkey.get_original": "dhaga.monkey.original",
    "gevent.monkey.is_module_patched": "dhaga.monkey.is_patched",
    "gevent.os": "dhaga.os",
    "gevent.pool": "dhaga.pool and dhaga.Scope",
    "gevent.pywsgi": "dhaga.http.wsgi",
    "gevent.queue": "dhaga.queue",
    "gevent.queue.Empty": "dhaga.queue.Empty",
    "gevent.queue.Full": "dhaga.queue.Full",
    "gevent.resolver": "not needed: the system's resolver looks up names, in OS threads",
    "gevent.server": "dhaga.servers",
    "gevent.setswitchinterval": "sys.setswitchinterval",
    "gevent.signal": "signal.signal, or dhaga.signal",
    "gevent.threadpool": "dhaga.offload and dhaga.OffloadPool",
    "gevent.timeout": "dhaga.Timeout, dhaga.move_on_after, dhaga.fail_after",
    "gevent.util": "dhaga.debug",
    "gevent.wait": "dhaga.wait; not needed for all of a program: its exit waits",
    "eventlet": "dhaga",
    "eventlet.Event": FUTURE,
    "eventlet.EventletDeprecationWarning": NONE,
    "eventlet.Semaphore": SEMAPHORE,
    "eventlet.CappedSemaphore": SEMAPHORE,
    "eventlet.StopServe": "stop() of dhaga.servers.TCPServer",
    "eventlet.asyncio": "dhaga.await_",
    "eventlet.backdoor": "python -m dhaga dump PID, python -m dhaga top PID",
    "eventlet.convenience": "dhaga.socket and dhaga.servers",
    "eventlet.corolocal": "dhaga.threading",
    "eventlet.corolocal.local": "dhaga.threading.local",
    "eventlet.dagpool": "dhaga.Scope, and result() of each dhaga that another waits for",
    "eventlet.db_pool": "the driver's own pool, in a patched program",
    "eventlet.debug": "dhaga.debug",
    "eventlet.debug.hub_blocking_detection": "DHAGA_DEBUG=1 in the environment",
    "eventlet.event": "dhaga.futures",
    "eventlet.event.Event": FUTURE,
    "eventlet.green": GREEN,
    "eventlet.greenio": "dhaga.io, dhaga.open, dhaga.socket",
    "eventlet.greenpool": "dhaga.pool.Pool",
    "eventlet.greenthread": "dhaga.spawn and dhaga.Dhaga",
    "eventlet.hubs": "dhaga.current().scheduler",
    "eventlet.hubs.notify_close": "not needed: a close wakes all waiters",
    "eventlet.hubs.trampoline": "dhaga.select.select",
    "eventlet.is_timeout": "except TimeoutError",
    "eventlet.lock": "dhaga.threading",
    "eventlet.patcher": PATCH,
    "eventlet.patcher.inject": "dhaga.monkey.patched_imports",
    "eventlet.patcher.is_monkey_patched": "dhaga.monkey.is_patched",
    "eventlet.patcher.original": "dhaga.monkey.original",
    "eventlet.pools": "dhaga.queue.LifoQueue that contains the items",
    "eventlet.queue": "dhaga.queue",
    "eventlet.queue.Empty": "dhaga.queue.Empty",
    "eventlet.queue.Full": "dhaga.queue.Full",
    "eventlet.semaphore": "dhaga.threading",
    "eventlet.semaphore.Semaphore": SEMAPHORE,
    "eventlet.semaphore.CappedSemaphore": SEMAPHORE,
    "eventlet.support": NONE,
    "eventlet.support.greendns": "not needed: the system's resolver looks up names, in OS threads",
    "eventlet.timeout": "dhaga.Timeout, dhaga.move_on_after, dhaga.fail_after",
    "eventlet.tpool.execute": "dhaga.offload",
    "eventlet.websocket": "simple-websocket or flask-sock, which upgrade on dhaga.http.wsgi.Server",
    "eventlet.wrap_is_timeout": "except TimeoutError",
    "eventlet.wsgi": "dhaga.http.wsgi.Server, or python -m dhaga serve",
    "eventlet.zipkin": NONE,
    "greenlet": "dhaga.spawn, dhaga.park and wake()",
    "greenlet.getcurrent": "dhaga.current",
    "threading": "dhaga.threading; unchanged under python -m dhaga program.py",
}
"""For each full path, the counterpart that the report shows."""

DIFFERS = {
    "spawn": "A program's end joins a dhaga, unless it is spawned with daemon=True; greenlets end with the main code. "
    "An error goes to dhaga.excepthook unless result() is called. Context variables are inherited.",
    "Greenlet": "get() is result(), kill() is cancel(), which returns at once; there are no links and no value.",
    "GreenThread": "wait() is result(), kill() is cancel(), which returns at once; there are no links.",
    "kill": "cancel() returns at once; join() waits. Cancelled, a BaseException, is raised where the dhaga parks.",
    "Timeout": "dhaga.Timeout is only a with block. It raises the built-in TimeoutError, an OSError, at the end of "
    "the block; Timeout(s, False) is dhaga.move_on_after(s), whose cancel lasts until the end of the block.",
    "joinall": "Like joinall, dhaga.wait does not raise the errors of its dhagas; a Scope does.",
    "Pool": "submit() waits for room only with max_pending; result() raises the errors of calls.",
    "Group": "A Scope's block waits for all its dhagas; an error of one cancels the others, and the block raises it.",
    "patch_all": "A patch that comes too late raises PatchError, which names the import that must move below it.",
    "Queue": "dhaga.queue has the standard contract: maxsize 0 means no bound; there is no iteration and no peek().",
    "Channel": "A put of dhaga.queue.Queue(1) does not wait until the item is taken.",
    "Event": "It has no links and no ready().",
    "AsyncResult": "A Future has add_done_callback() instead of links, and result(timeout) raises TimeoutError.",
    "sent once": "A Future is set once: there is no reset(). Its result(timeout) raises TimeoutError, where wait() "
    "returned None.",
    "Semaphore": "release() returns None; there is no counter, and no wait() without taking a permit.",
    "get_hub": "There is no hub to switch to and no watcher: park with dhaga.park(reason), wake with wake(value).",
    "LoopExit": "Deadlock names each wait, and is not raised while an OS thread, a child or a signal could still help.",
    "WSGIServer": "Limits of size and time apply to clients; there are no handler classes.",
    "threading": "A dhaga that computes holds its OS thread, except under python -m dhaga, which preempts.",
    "option": "The worker patches the standard library by itself.",
}
"""Differences in behavior. The key is the last name of a path, or the name to which ALIKE maps it."""

ALIKE = {
    **dict.fromkeys(("eventlet.Event", "eventlet.event.Event"), "sent once"),
    **dict.fromkeys(("spawn_later", "spawn_n", "spawn_raw", "spawn_after", "spawn_after_local"), "spawn"),
    **dict.fromkeys(("killall", "GreenletExit"), "kill"),
    "with_timeout": "Timeout",
    "iwait": "joinall",
    **dict.fromkeys(("GreenPool", "GreenPile"), "Pool"),
    "monkey_patch": "patch_all",
    **dict.fromkeys(("JoinableQueue", "LightQueue", "LifoQueue", "PriorityQueue", "SimpleQueue"), "Queue"),
    **dict.fromkeys(("BoundedSemaphore", "CappedSemaphore"), "Semaphore"),
    "trampoline": "get_hub",
    "StreamServer": "WSGIServer",
}
"""Names or paths, each mapped to another name with the same differences."""

RAISING = (
    *("gevent.Greenlet.add_spawn_callback", "gevent.core.loop", "gevent.greenlet.Greenlet.add_spawn_callback"),
    *("gevent.monkey.patch_module", "gevent.os.fork_and_watch", "gevent.socket.cancel_wait"),
    *("eventlet.backdoor.backdoor", "eventlet.backdoor.backdoor_server", "eventlet.debug.spew"),
    "eventlet.patcher.patch_function",
)
REFUSED = {
    "greenlet.greenlet": "a program's own greenlet cannot switch beside the scheduler's",
    **dict.fromkeys(RAISING, "it raises NotImplementedError"),
}
"""Names whose use fails under ``--as``, each with the reason."""


class Counterpart(NamedTuple):
    """The replacement of a name, and the difference in behavior, if any."""

    text: str
    differs: str


def counterpart_of(path: str) -> Counterpart:
    """Return the counterpart of the longest known part of a path such as ``gevent.pool.Pool.map``."""
    if LIBRARIES[path.partition(".")[0]]:
        return Counterpart(LIBRARIES[path.partition(".")[0]], "")
    parts = path.split(".")
    for length in range(len(parts), min(len(parts) - 1, 1), -1):  # never the counterpart of the whole library
        known, last = ".".join(parts[:length]), parts[length - 1]
        text = OWN.get(known) or face_of(known) or (COUNTERPARTS[last][1] if length > 1 and is_of(last, known) else "")
        if text:
            if path.startswith("threading."):
                return Counterpart(text, "")  # dhaga.threading has the standard contract
            return Counterpart(text, DIFFERS.get(ALIKE.get(known) or ALIKE.get(last, last), ""))
    return Counterpart(NONE, "")


def face_of(path: str) -> str:
    module, _, name = path.rpartition(".")
    return f"{FACES[module]}.{name}" if module in FACES else f"dhaga.{path}" if module in STANDARD else ""


def is_of(last: str, path: str) -> bool:
    """Return whether a bare name's counterpart applies to a path. The counterpart of asyncio's ``run`` never does."""
    return last in COUNTERPARTS and COUNTERPARTS[last][1] is not NOTHING_TO_RUN and not path.startswith("threading.")


@cache
def not_imitated(path: str) -> str:
    """Return the error that ``python -m dhaga --as`` raises for a path; "" if Dhaga has the name."""
    if path in REFUSED:
        return f"{path}: {REFUSED[path]}"
    if path.partition(".")[0] not in IMITATED:
        return ""
    parts = path.split(".")
    try:
        found: object = import_module(f"dhaga.compat.{parts[0]}")
        for position, name in enumerate(parts[1:], 2):
            module = f"dhaga.compat.{'.'.join(parts[:position])}"
            if not hasattr(found, name) and hasattr(found, "__path__") and find_spec(module) is not None:
                try:
                    found = import_module(module)
                except ImportError as error:  # an error of one of the module's dependencies
                    return f"{path}: {error}"
            else:
                found = getattr(found, name)
                if not hasattr(found, "__path__") and isinstance(found, type):
                    break  # attributes of instances are not checked
    except (ImportError, AttributeError):
        return f"there is no {path}"
    return ""
