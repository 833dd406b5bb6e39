"""The standard library's own functions, saved before a patch can replace them. The kernel calls the saved functions.

A function written in Python looks up the names of its module at each call. So a saved reference is not enough: a saved
``threading.enumerate`` would use a patched ``threading.Lock``. ``unpatched`` therefore copies the function and gives
the copy a ``Namespace`` as its globals. A ``Namespace`` keeps the former values of names that a patch replaces, and
looks up all other names in the module.
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
    """The globals of a standard module's copied functions: names that a patch replaces have their former values."""

    def __init__(self, module: ModuleType) -> None:
        self.module = module

    def __missing__(self, name: str) -> Any:
        try:
            return getattr(self.module, name)
        except AttributeError:
            raise KeyError(name) from None


# The namespaces of the modules whose functions this module copies. ``monkey`` adds the former values of replaced names.
namespaces = {module.__name__: Namespace(module) for module in (threading, socket)}


def unpatched(function: F) -> F:
    """Return a copy of a standard module's function that works unchanged under every patch of the module.

    Raises: PatchError if another package (usually gevent or eventlet) replaced the function before dhaga was imported.
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
    """Yield unpatched methods for a class that a patch replaces, and for its subclasses in the same module.

    Methods that use no replaced name are left out, because a Namespace would slow them down: ``makefile`` and ``close``
    of a socket would take 3.8 µs instead of 2.1 µs.
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
    """Return the names of globals and attributes that a code object looks up."""
    return {*code.co_names}.union(*(global_names(inner) for inner in code.co_consts if isinstance(inner, CodeType)))


def own_copy(name: str) -> Any:
    """Return a second copy of a module written in C. The function objects of the copy are in no other module."""
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
# This function exists from CPython 3.14 on.
set_thread_name: Any = getattr(_thread, "set_name", None)
Thread = threading.Thread
current_thread = unpatched(threading.current_thread)
enumerate_threads = unpatched(threading.enumerate)
main_thread = unpatched(threading.main_thread)
Barrier = threading.Barrier
RLock = _thread.RLock
local = threading.local


def thread_name(ident: int) -> str:
    """Return the name of an OS thread. For a thread unknown to ``threading``, do not create a dummy ``Thread``."""
    thread = namespaces["threading"]["_active"].get(ident)
    return str(thread.name) if thread is not None else f"thread {ident}"


# This function returns the number of threads besides the main thread.
thread_count = _thread._count
# These clocks are functions of a copy of ``time``. To stop a clock, freezegun replaces the clock's function object in
# every module. freezegun does not find the function objects of the copy. A call takes 71 ns, like a call of the
# original; a ``functools.partial`` of the original would take 86 ns.
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
# The class ``select.kqueue``; None where the platform lacks kqueue.
kqueue: Any = getattr(select, "kqueue", None)


def selector_over(kqueue: Any) -> Any:
    """Return a class like ``selectors.KqueueSelector`` that uses ``kqueue`` even if a patch replaces ``select.kqueue``.

    The standard class looks up ``select.kqueue`` for each selector.
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
    """Register ``forget()`` to be called in every forked child."""
    system.register_at_fork(after_in_child=forget)  # type: ignore[arg-type]
