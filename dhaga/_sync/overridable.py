"""Descriptor for methods that programs may replace on one object, such as ``_put``, ``_get``, ``_qsize`` of a Queue."""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

M = TypeVar("M", bound=Callable[..., Any])


class Overridable:
    """A method that programs may replace on one queue. That queue then uses no shortcuts until the method is restored.

    This is a data descriptor, so an assignment to the instance calls ``__set__``. A subclass's method overrides the
    descriptor. The replacement is kept in ``Queue._replaced_`` and not in ``__dict__``. After a read of ``__dict__``,
    CPython would keep the attributes in a real dict, and a ``put`` and ``get`` would take 1.8 times as long.
    """

    def __init__(self, function: Any) -> None:
        self.function = function

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, queue: Any, kind: type | None = None) -> Any:
        if queue is None:
            return self.function
        return queue._replaced_.get(self.name) or types.MethodType(self.function, queue)

    def __set__(self, queue: Any, method: Any) -> None:
        own = method == types.MethodType(self.function, queue)
        queue._replaced_ = {**queue._replaced_, self.name: None if own else method}
        queue._bind_shortcuts_()

    def __delete__(self, queue: Any) -> None:
        if queue._replaced_.get(self.name) is None:
            raise AttributeError(self.name)
        queue._replaced_ = {**queue._replaced_, self.name: None}
        queue._bind_shortcuts_()


if TYPE_CHECKING:

    def overridable(function: M) -> M: ...

else:
    overridable = Overridable
