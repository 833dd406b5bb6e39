"""Names that our classes have in gevent, eventlet, trio or asyncio; each raises an AttributeError that gives our name.

A ``__getattr__`` raises them. Each name is a descriptor. A ``__getattr__`` for all of them would be slow: CPython 3.11
does not specialise the attributes of classes that have one (48 ns for an attribute instead of 14 ns; from 3.12 on there
is no difference). Completion, which reads the class, offers these names there. ``show_only`` keeps ``dir()`` of an
object to the names that users may call.
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
"""The names of a dhaga in gevent, eventlet and asyncio, each with the text to write instead."""


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
"""The names of a scope in trio, anyio, asyncio, and of gevent's Group, each with the text to write instead."""

OF_A_TIMEOUT = {
    "start": "a block: with dhaga.Timeout(seconds)",
    "cancel": "the end of the with block",
    "close": "the end of the with block",
    "pending": "expired",
    "reschedule": "another dhaga.Timeout in a block within",
}
"""The names of a Timeout in gevent, eventlet and asyncio, each with the text to write instead."""


def say_foreign_names(of: Any, names: Mapping[str, str]) -> None:
    """Make a class say what to write instead of each foreign name."""
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
    """Return the error of a foreign name."""
    return AttributeError(f"{kind!r} object has no attribute {name!r}: here it is {hint}", name=name, obj=instance)


class ForeignName:
    """Descriptor whose attribute does not exist: the error says what to use instead."""

    __slots__ = ("hint", "kind", "name")

    def __init__(self, name: str, hint: str, kind: str) -> None:
        self.name = name
        self.hint = hint
        self.kind = kind

    def __get__(self, instance: object, owner: type) -> Self:
        # Tools take all that dir() of the class lists.
        if instance is None:
            return self
        raise missing_attribute(instance, self.name, self.kind, self.hint)


class AsyncWithRefused(TypeError, AttributeError):
    """The error of ``async with`` on an object that has only ``with``: for ``hasattr`` there is no such method."""


class NoAsyncWith:
    """Descriptor in place of ``__aenter__`` and ``__aexit__``: its error says what to write in a coroutine."""

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
    """Give a class that supports only ``with`` an error for ``async with`` that says what to write. For decorating.

    ``instead``: asyncio's counterpart, if it has one.
    """

    def decorate(cls: C) -> C:
        cls.__aenter__ = cls.__aexit__ = NoAsyncWith(instead)
        return cls

    return decorate


def show_only(*public: str) -> Callable[[C], C]:
    """Make ``dir()`` of an object show these names of its class, those of subclasses, and Python's own. For decorating.

    The other names are the internal API: those that other districts use have no underscore, but are not for users.
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
    """Attribute of a greenlet in ``compat``: Dhaga's value, until the program sets its own.

    Greenlets of gevent and eventlet have an open ``__dict__``, and programs put there what they like: Celery's timers a
    ``priority``. Dhaga's properties of these names cannot be set. The kernel reads none; a dump shows the program's.
    """

    def __init__(self, own: property) -> None:
        self.own: property = own

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else self.own.__get__(instance, owner)
