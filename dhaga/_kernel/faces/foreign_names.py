"""Hints for attribute names of gevent, eventlet, trio and asyncio: an access raises an AttributeError that gives
Dhaga's name for the same thing.

From CPython 3.12 on, a ``__getattr__`` of the class raises the error. On CPython 3.11 each name is a descriptor of the
class instead. With a ``__getattr__`` in the class, 3.11 would read the ordinary attributes of the objects in 48 ns
instead of 14 ns. Because of the descriptors, completion tools on 3.11 also offer these names.
``show_only`` limits ``dir()`` of an object to the names that users may call.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NoReturn, Self, TypeVar

C = TypeVar("C", bound=type[Any])

OF_A_DHAGA = {
    "kill": "cancel(), then join()",
    "get": "result()",
    "value": "result()",
    "exception": "result(), which raises it",
    "exc_info": "result(), which raises the error",
    "wait": "result(), or join()",
    "successful": "result(), which raises if it was not",
    "ready": "not is_alive()",
    "done": "not is_alive()",
    "cancelled": "result(), which raises dhaga.Cancelled if it was",
    "started": "state",
    "start": "dhaga.spawn(), which starts it",
    "start_later": "dhaga.spawn_later()",
    "link": "dhaga.as_completed() over several; for a call at its end write that into the function",
    "link_value": "dhaga.as_completed()",
    "link_exception": "dhaga.Scope, which raises it, or dhaga.excepthook",
    "rawlink": "dhaga.as_completed()",
    "unlink": "dhaga.as_completed()",
    "add_done_callback": "asyncio.ensure_future(dhaga) where asyncio wants a Future, else dhaga.as_completed()",
}
"""Names that microthreads and tasks have in gevent, eventlet and asyncio, each with its replacement."""


OF_A_SCOPE = {
    "start_soon": "spawn(fn, *args)",
    "start": "spawn(fn, *args)",
    "create_task": "spawn(fn, *args), with a function instead of a coroutine",
    "cancel_scope": "the scope itself: cancel(), cancel_called, cancelled_caught",
    "deadline": "dhaga.Scope(timeout=seconds)",
    "shield": "dhaga.shield(), a block of its own",
    "wait": "the end of the with block",
    "join": "the end of the with block",
    "kill": "cancel()",
}
"""Names that scopes have in trio, anyio, asyncio and gevent (``Group``), each with its replacement."""

OF_A_TIMEOUT = {
    "start": "a block: with dhaga.Timeout(seconds)",
    "cancel": "the end of the with block",
    "close": "the end of the with block",
    "pending": "expired",
    "reschedule": "another dhaga.Timeout in a block within",
}
"""Names that timeouts have in gevent, eventlet and asyncio, each with its replacement."""


def say_foreign_names(of: Any, names: Mapping[str, str]) -> None:
    """Make each foreign name of a class raise an error that gives the replacement."""
    if sys.version_info < (3, 12):
        names_of: Callable[[object], Iterable[str]] = of.__dir__
        of.__dir__ = lambda self: sorted(set(names_of(self)) - names.keys())
        for name, hint in names.items():
            setattr(of, name, ForeignName(name, hint, of.__name__))
        return

    def __getattr__(self: object, name: str) -> NoReturn:
        if name in names:
            raise missing_attribute(self, name, of.__name__, names[name])
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}", name=name, obj=self)

    of.__getattr__ = __getattr__


def missing_attribute(instance: object, name: str, kind: str, hint: str) -> AttributeError:
    """Return the error for a foreign name."""
    return AttributeError(f"{kind!r} object has no attribute {name!r}: here it is {hint}", name=name, obj=instance)


class ForeignName:
    """A descriptor for an attribute that does not exist: its error names the replacement."""

    __slots__ = ("hint", "kind", "name")

    def __init__(self, name: str, hint: str, kind: str) -> None:
        self.name = name
        self.hint = hint
        self.kind = kind

    def __get__(self, instance: object, owner: type) -> Self:
        # Tools read every attribute that dir() of the class lists, so such a read must not raise.
        if instance is None:
            return self
        raise missing_attribute(instance, self.name, self.kind, self.hint)


class AsyncWithRefused(TypeError, AttributeError):
    """The error of ``async with`` on an object that supports only ``with``. As an AttributeError, it makes ``hasattr``
    return False.
    """


class NoAsyncWith:
    """A descriptor for ``__aenter__`` and ``__aexit__``: its error names what a coroutine must use instead."""

    __slots__ = ("instead",)

    def __init__(self, instead: str) -> None:
        self.instead = instead

    def __get__(self, instance: object, owner: type) -> NoReturn:
        name = getattr(instance, "shown_name", owner.__name__)
        other = f"write {self.instead}, or " if self.instead else ""
        raise AsyncWithRefused(
            f"async with on {name}: {name} is for code in dhagas and in main code, in a plain with;\n"
            f"in a coroutine {other}await dhaga.aio.run_in_dhaga(fn, ...)"
        )


def refuse_async_with(instead: str = "") -> Callable[[C], C]:
    """Make ``async with`` on objects of a class raise an error that names the replacement. A class decorator.

    ``instead``: the corresponding call of asyncio, if there is one.
    """

    def decorate(cls: C) -> C:
        cls.__aenter__ = cls.__aexit__ = NoAsyncWith(instead)
        return cls

    return decorate


def show_only(*public: str) -> Callable[[C], C]:
    """Limit ``dir()`` of an object to ``public``, names that subclasses add, and Python's own. A class decorator.

    The other names of the class are internal: some have no underscore, because other packages of Dhaga use them.
    """

    def decorate(cls: C) -> C:
        names_of: Any = cls.__dir__
        internal = {name for each in cls.__mro__ for name in vars(each)} - {*public}

        def __dir__(self: object) -> list[str]:
            """List the public names and Python's own."""
            return [name for name in names_of(self) if name[:2] == "__" or not (name[0] == "_" or name in internal)]

        cls.__dir__ = __dir__  # type: ignore[assignment]
        return cls

    return decorate


class OwnName:
    """A greenlet's attribute in ``compat``. The attribute has Dhaga's value until the program sets another value.

    Greenlets of gevent and eventlet accept any attribute; for example, Celery's timers set ``priority``. Dhaga's
    properties of the same names cannot be set, so ``compat`` replaces the properties with this descriptor. The kernel
    does not read these attributes; a dump shows the value that the program has set.
    """

    def __init__(self, own: property) -> None:
        self.own: property = own

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else self.own.__get__(instance, owner)
