"""``gevent.local``: objects whose attributes have a separate value in each greenlet."""

from __future__ import annotations

from typing import Any, Self
from weakref import WeakValueDictionary

from ..._sync import local as ours

__all__ = ["all_local_dicts_for_greenlet", "local"]

owners: WeakValueDictionary[int, local] = WeakValueDictionary()
"""All ``local`` objects, by the id of the object that holds their attributes."""


class local(ours.local):  # the standard name
    """An object whose attributes have a separate value in each greenlet. Source: ``gevent.local.local``.

    ``copy.copy`` copies only the values of the calling greenlet.
    """

    __slots__ = ()

    def __new__(cls, /, *args: Any, **kwargs: Any) -> Self:
        self = super().__new__(cls, *args, **kwargs)
        owners[id(object.__getattribute__(self, "_namespaces_"))] = self
        return self

    def __copy__(self) -> Any:
        namespaces = object.__getattribute__(self, "_namespaces_")
        kind: Any = type(self)
        copy = kind(*namespaces.args, **namespaces.kwargs)
        copy.__dict__.update(self.__dict__)
        return copy


def all_local_dicts_for_greenlet(greenlet: Any) -> list[tuple[tuple[type, int], dict[str, Any]]]:
    """Return the ``local`` objects of a greenlet: the class and the id of each object, and its attributes."""
    found = []
    for reference in greenlet.thread_local_refs or ():
        namespaces = reference()
        owner = owners.get(id(namespaces))
        if owner is not None:
            found.append(((type(owner), id(owner)), namespaces[greenlet.ident]))
    return found
