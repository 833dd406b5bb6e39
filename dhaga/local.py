"""``threading.local`` on dhagas: each dhaga, and each OS thread's other code, sees attributes of its own."""

from __future__ import annotations

import weakref
from typing import Any

from greenlet import getcurrent

from .kernel import originals
from .kernel.microthread import Dhaga

MISSING = object()


class Namespaces(dict[int, dict[str, Any]]):
    """The attributes of one local, by dhaga; a dhaga that ends takes its own out (see ``Dhaga.end``)."""

    __slots__ = ("__weakref__", "args", "kwargs", "threads")

    def __init__(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.args = args
        self.kwargs = kwargs
        self.threads: Any = originals.local()

    def here(self, owner: local) -> dict[str, Any]:
        """Return the attributes for whoever runs, made and initialised on first use."""
        me = getcurrent()
        if isinstance(me, Dhaga):
            found = self.get(me.ident)
            if found is None:
                found = self[me.ident] = {}
                me.keep(weakref.ref(self))
                initialise(owner, self)
        else:
            found = self.threads.__dict__.get("here")
            if found is None:
                found = self.threads.here = {}
                initialise(owner, self)
        return found


def initialise(owner: local, namespaces: Namespaces) -> None:
    """Call a subclass's ``__init__``, as for every new thread that comes to see the object."""
    if type(owner).__init__ is not object.__init__:
        type(owner).__init__(owner, *namespaces.args, **namespaces.kwargs)


class local:  # the standard name
    """Attributes that each dhaga has for itself. Source: ``threading.local``.

    A subclass's ``__init__`` runs once for each dhaga that uses the object. What a dhaga has put in is dropped at its
    end.
    """

    __slots__ = ("__weakref__", "_namespaces")

    def __new__(cls, /, *args: Any, **kwargs: Any) -> local:
        if (args or kwargs) and cls.__init__ is object.__init__:
            raise TypeError("Initialization arguments are not supported")
        self = object.__new__(cls)
        namespaces = Namespaces(args, kwargs)
        object.__setattr__(self, "_namespaces", namespaces)
        me = getcurrent()  # __init__ comes by itself, here and now
        if isinstance(me, Dhaga):
            namespaces[me.ident] = {}
            me.keep(weakref.ref(namespaces))
        else:
            namespaces.threads.here = {}
        return self

    def __getattribute__(self, name: str) -> Any:
        here = object.__getattribute__(self, "_namespaces").here(self)
        if name == "__dict__":
            return here
        value = here.get(name, MISSING)
        if value is MISSING or is_data_descriptor(type(self), name):
            return object.__getattribute__(self, name)
        return value

    def __setattr__(self, name: str, value: Any) -> None:
        refuse_dict(self, name)
        here = object.__getattribute__(self, "_namespaces").here(self)
        if is_data_descriptor(type(self), name):
            object.__setattr__(self, name, value)
        else:
            here[name] = value

    def __delattr__(self, name: str) -> None:
        refuse_dict(self, name)
        here = object.__getattribute__(self, "_namespaces").here(self)
        if is_data_descriptor(type(self), name):
            object.__delattr__(self, name)
        elif name in here:
            del here[name]
        else:
            raise AttributeError(name)


def is_data_descriptor(kind: type, name: str) -> bool:
    found = getattr(kind, name, MISSING)
    return found is not MISSING and hasattr(type(found), "__set__")


def refuse_dict(owner: local, name: str) -> None:
    if name == "__dict__":
        raise AttributeError(f"{type(owner).__name__!r} object attribute '__dict__' is read-only")
