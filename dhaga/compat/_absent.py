"""Names of gevent and eventlet that are absent on purpose. The error on import or on use states the alternative."""

from __future__ import annotations

from types import ModuleType
from typing import Any, NoReturn

RESOLVER = (
    "the system's own resolver looks up names here, in OS threads, while the caller is parked: call "
    "dhaga.socket.getaddrinfo, or leave the resolver out"
)
LOOP = (
    "all waits run on the asyncio loop of the thread, gevent.get_hub().loop; for a loop of your own: "
    "dhaga.Scheduler(loop=loop)"
)
INSIDE = "it is an internal part, and is different here: use the names in the original's documentation"

ABSENT = {
    "eventlet.coros": "its semaphores are in eventlet.semaphore, its events in eventlet.event",
    "eventlet.dagpool": "spawn each call in a dhaga.Scope, and read the result() of the dhagas that it depends on",
    "eventlet.green.asynchat": "Python 3.12 has removed it: use dhaga.socket, or asyncio with dhaga.await_",
    "eventlet.green.asyncore": "Python 3.12 has removed it: use dhaga.socket, or asyncio with dhaga.await_",
    "eventlet.hubs.timer": "call schedule_call_global(seconds, function) of eventlet.hubs.get_hub(), or spawn_after",
    "eventlet.support.greendns": RESOLVER,
    "eventlet.zipkin": (
        "dhaga.debug.trace() records the turns of all microthreads, and OpenTelemetry follows requests; eventlet's "
        "own tracing is not here"
    ),
    "gevent.ares": RESOLVER,
    "gevent.libev": LOOP,
    "gevent.libuv": LOOP,
    "gevent.resolver": RESOLVER,
    "gevent.resolver_ares": RESOLVER,
    "gevent.resolver_thread": RESOLVER,
    "gevent.win32util": "Dhaga runs on Linux and macOS",
}
"""The alternative for each absent module and its submodules."""

MONITOR = "DHAGA_DEBUG=1 logs code that blocks the others, and dhaga.debug shows all microthreads"
INTERFACE = "use the classes of events, such as gevent.events.GeventDidPatchEvent"

REFUSED = {
    "eventlet.backdoor": {INSIDE: "FileProxy SocketConsole"},
    "eventlet.greenio": {INSIDE: "SOCKET_BLOCKING SOCKET_CLOSED"},
    "eventlet.greenio.base": {
        "catch TimeoutError": "socket_timeout",
        "import OpenSSL itself": "SSL",
        "call setblocking(False) of the socket": "set_nonblocking",
        INSIDE: "SOCKET_BLOCKING SOCKET_CLOSED",
    },
    "eventlet.green.ssl": {
        "call dhaga.ssl.create_default_context(), or SSLContext()": "GreenSSLContext green_create_default_context",
        INSIDE: "CONNECT_ERR CONNECT_SUCCESS",
    },
    "eventlet.hubs.hub": {
        "get_hub() is the one hub; DHAGA_DEBUG=1 logs code that blocks it": (
            "DebugListener FdListener alarm_handler alarm_itimer arm_alarm closed_callback noop"
        ),
    },
    "eventlet.hubs.selects": {INSIDE: "BAD_SOCK"},
    "eventlet.support": {"warn by the standard warnings": "wrap_deprecated"},
    "gevent": {"there is nothing to choose: " + LOOP: "config"},
    "gevent.core": {
        LOOP: "embeddable_backends get_header_version get_version recommended_backends supported_backends",
    },
    "gevent.events": {
        MONITOR: (
            "EventLoopBlocked IEventLoopBlocked IMemoryUsageThresholdExceeded IMemoryUsageUnderThreshold "
            "IPeriodicMonitorThread IPeriodicMonitorThreadStartedEvent MemoryUsageThresholdExceeded "
            "MemoryUsageUnderThreshold PeriodicMonitorThreadStartedEvent"
        ),
        INTERFACE: (
            "IGeventDidPatchAllEvent IGeventDidPatchBuiltinModulesEvent IGeventDidPatchEvent "
            "IGeventDidPatchModuleEvent IGeventPatchEvent IGeventWillPatchAllEvent IGeventWillPatchEvent "
            "IGeventWillPatchModuleEvent"
        ),
    },
    "gevent.monkey": {"run the program by python -m dhaga --as gevent": "main"},
    "gevent.monkey.api": {"put names into a module by hand": "patch_item remove_item"},
    "gevent.os": {"call fork, forkpty or fork_and_watch": "fork_gevent forkpty_and_watch forkpty_gevent"},
    "gevent.pywsgi": {"the environ is a dict; secure_repr of it is not here": "WSGISecureEnviron"},
    "gevent.ssl": {"Python 3.12 has removed it: call wrap_socket of an SSLContext": "wrap_socket"},
    "gevent.util": {
        "call dhaga.debug.dump() or gevent.util.format_run_info()": "GreenletTree",
        "dhaga.no_park() finds the calls of a block that would wait": "assert_switches",
    },
}
"""For each module, the alternatives, each with the names that it replaces. These names can be imported, but not used.
"""


class AbsentError(ImportError, NotImplementedError):
    """Raised on import of a module that is absent on purpose."""


class Refused:
    """Stand-in for an absent name. It can be imported; any use raises NotImplementedError."""

    def __init__(self, name: str, way: str) -> None:
        vars(self).update(_name=name, _way=way)

    def __repr__(self) -> str:
        return f"<{self._name}, which is not here: {self._way}>"

    def _refuse(self, *_: object, **__: object) -> NoReturn:
        raise NotImplementedError(f"there is no {self._name} here: {self._way}")

    __call__ = __mro_entries__ = __setattr__ = __iter__ = __enter__ = _refuse

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # tools read such attributes of every object
            raise AttributeError(name)
        self._refuse()


def refuse_names(foreign: str, module: ModuleType) -> None:
    """Add stand-ins for the refused names of ``foreign``, a module of gevent or eventlet, to Dhaga's ``module``."""
    for way, names in REFUSED.get(foreign, {}).items():
        for name in names.split():
            vars(module).setdefault(name, Refused(f"{foreign}.{name}", way))


def refuse_absent(name: str) -> None:
    """Raise AbsentError if ``name`` is a key of ``ABSENT``, or a submodule of such a module."""
    for absent, way in ABSENT.items():
        if name == absent or name.startswith(f"{absent}."):
            raise AbsentError(f"there is no {name} here: {way}", name=name)


def raise_missing(module: str, name: str) -> NoReturn:
    """Raise AbsentError for an absent module, else AttributeError. From: a module's ``__getattr__``."""
    refuse_absent(f"{module.removeprefix(f'{__package__}.')}.{name}")
    raise AttributeError(f"module {module!r} has no attribute {name!r}")
