"""Names that a Dhaga has in gevent, eventlet or asyncio, each an AttributeError that says its name here.

A ``__getattr__`` of the class would cost every attribute of every dhaga: CPython (3.11 on) specialises attributes for
classes without one. These stand in the class for their own name only.
"""

from __future__ import annotations

from typing import Any, Self

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
"""By name in gevent, eventlet and asyncio: what to write here."""


class ForeignName:
    """Descriptor whose attribute does not exist: the error says what to take."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __get__(self, instance: object, owner: type) -> Self:
        # Tools take all that dir() of the class lists.
        if instance is None:
            return self
        raise AttributeError(
            f"'Dhaga' object has no attribute {self.name!r}: here it is {OF_A_DHAGA[self.name]}",
            name=self.name,
            obj=instance,
        )


class OwnName:
    """Attribute of a greenlet in ``compat`` that reads as Dhaga's until the program sets one of its own.

    Greenlets of gevent and eventlet have an open ``__dict__``, and programs put there what they like: Celery's timers a
    ``priority``. Dhaga's properties of these names refuse that. The kernel reads none; a dump shows the program's.
    """

    def __init__(self, own: property) -> None:
        self.own: property = own

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else self.own.__get__(instance, owner)
