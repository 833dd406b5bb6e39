"""The standard library's own functions, taken before a patch can replace them. The kernel calls only these.

A function written in Python looks up the names of its module at each call. So a mere reference does not preserve it: a
saved ``threading.enumerate`` would use a patched ``threading.Lock``. ``unpatched`` therefore copies the function with a
``Namespace`` for its globals. There, names that a patch replaces keep their former meaning, and all others are looked
up in the module as ever.
"""

from __future__ import annotations

import _thread
import asyncio
import importlib.util
import os
import select
import selectors
import socket
import threading
import time
from collections.abc import Callable, Iterator, Set
from types import CodeType, FunctionType, ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, Any, TypeVar

from .errors import PatchError
from .platform.system import system

F = TypeVar("F", bound=Callable[..., Any])


class Namespace(dict[str, Any]):
    """The globals of a standard module for its own functions: patched names have their former values."""

    def __init__(self, module: ModuleType) -> None:
        self.module = module

    def __missing__(self, name: str) -> Any:
        try:
            return getattr(self.module, name)
        except AttributeError:
            raise KeyError(name) from None


# For the modules whose functions and classes this module calls. ``monkey`` adds the replaced names.
namespaces = {module.__name__: Namespace(module) for module in (threading, socket)}


def unpatched(function: F) -> F:
    """Return a function of a standard module that works as before under every patch of that module.

    Raises: PatchError if another package (usually gevent or eventlet) has replaced it before the import of dhaga.
    """
    assert isinstance(function, FunctionType)
    if function.__module__ not in namespaces:
        package = function.__module__.partition(".")[0]
        raise PatchError(
            f"{package} has patched this program already ({function.__name__}() is now of {function.__module__}),\n"
            f"and of two patches neither works: run the unchanged program with python -m dhaga --as {package} ...,\n"
            "or list what to change with python -m dhaga migrate"
        )
    copy = FunctionType(
        function.__code__,
        namespaces[function.__module__],
        function.__name__,
        function.__defaults__,
        function.__closure__,
    )
    copy.__kwdefaults__ = function.__kwdefaults__
    copy.__qualname__, copy.__doc__ = function.__qualname__, function.__doc__
    return copy  # type: ignore[return-value]


def unpatched_methods(kind: type, replaced: Set[str]) -> Iterator[tuple[type, str, Any]]:
    """Yield the methods to preserve: of a class that a patch replaces, and of its subclasses in the same module.

    Methods that use no replaced name stay unchanged: a Namespace would slow them down (``makefile`` and ``close`` of a
    socket: 3.8 µs instead of 2.1).
    """
    for name, value in list(vars(kind).items()):
        if not isinstance(value, FunctionType) or value.__module__ != kind.__module__:
            continue
        if global_names(value.__code__) & replaced:
            yield kind, name, unpatched(value)
    subclasses: list[type] = kind.__subclasses__()
    for subclass in subclasses:
        if subclass.__module__ == kind.__module__:
            yield from unpatched_methods(subclass, replaced)


def global_names(code: CodeType) -> set[str]:
    """Return the names of globals and attributes that code looks up."""
    return {*code.co_names}.union(*(global_names(inner) for inner in code.co_consts if isinstance(inner, CodeType)))


def own_copy(name: str) -> Any:
    """Return a second copy of a module written in C, with function objects of its own, which no other module has."""
    spec = importlib.util.find_spec(name)
    assert spec is not None and spec.loader is not None
    copy = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(copy)
    return copy


allocate_lock = _thread.allocate_lock
get_ident = _thread.get_ident
TIMEOUT_MAX = _thread.TIMEOUT_MAX
start_new_thread = _thread.start_new_thread
interrupt_main = _thread.interrupt_main
get_native_id = _thread.get_native_id
# From CPython 3.14 on.
set_thread_name: Any = getattr(_thread, "set_name", None)
Thread = threading.Thread
current_thread = unpatched(threading.current_thread)
enumerate_threads = unpatched(threading.enumerate)
main_thread = unpatched(threading.main_thread)
Barrier = threading.Barrier
RLock = _thread.RLock
local = threading.local
# The number of threads besides the main one.
thread_count = _thread._count
# Clocks of a copy of ``time``: freezegun stops a clock by replacing its function object in every module that has a name
# for it. A call takes 71 ns, as one of the module's own function does; a partial would take 86 ns.
own_time = own_copy("time")
monotonic: Callable[[], float] = own_time.monotonic
perf_counter: Callable[[], float] = own_time.perf_counter
perf_counter_ns: Callable[[], int] = own_time.perf_counter_ns
clock_gettime: Any = getattr(time, "clock_gettime", None)
pthread_getcpuclockid: Any = getattr(time, "pthread_getcpuclockid", None)
thread_sleep = time.sleep
socketpair = unpatched(socket.socketpair)
Socket = socket.socket
SelectorEventLoop = asyncio.SelectorEventLoop
close = os.close
getpid = os.getpid
write = os.write
select_module = select
poll: Any = system.poll
epoll: Any = getattr(select, "epoll", None)
# select's own; None where the platform lacks it.
kqueue: Any = getattr(select, "kqueue", None)


def selector_over(kqueue: Any) -> Any:
    """Return a class as ``selectors.KqueueSelector``, over ``kqueue`` even where a patch replaces ``select.kqueue``.

    The standard class looks that name up for each selector.
    """
    standard: Any = getattr(selectors, "KqueueSelector")  # noqa: B009 - type checkers lack it on other platforms
    init = standard.__init__
    own_globals = Namespace(selectors)
    own_globals["select"] = SimpleNamespace(kqueue=kqueue)
    own_init = FunctionType(init.__code__, own_globals, init.__name__, init.__defaults__, init.__closure__)
    return type("KqueueSelector", (standard,), {"__init__": own_init})


if TYPE_CHECKING:
    from selectors import DefaultSelector as DefaultSelector
else:
    DefaultSelector = system.Selector if kqueue is None else selector_over(kqueue)


def after_fork_in_child(forget: object) -> None:
    """Arrange a call of ``forget()`` in every forked child."""
    system.register_at_fork(after_in_child=forget)  # type: ignore[arg-type]
