"""``threading.local`` for dhagas: attributes that are separate for each dhaga and for each OS thread outside dhagas.

A local has a Namespaces object: a dict from a dhaga's ident to the dhaga's attributes, and a standard local for code
outside dhagas. A dhaga holds only weak references to the Namespaces objects that it has used, so a local can be freed.
When a dhaga ends, its entry is removed and its values are freed.

Rejected: a context variable. A spawned dhaga copies its spawner's context, and would inherit the values; but a thread
does not inherit values of ``threading.local``.
"""

from __future__ import annotations

import weakref
from typing import Any, Self

from greenlet import getcurrent

from .._kernel import originals
from .._kernel.faces.stdlib_face import refuse_copy
from .._kernel.fast.compiled import compiled
from .._kernel.run.microthread import Dhaga

MISSING = object()
"""A marker for a missing attribute, since None is a valid value."""


class Namespaces(dict[int, dict[str, Any]]):
    """The attributes of one local, by dhaga ident. ``threads`` holds the attributes of code outside dhagas."""

    __slots__ = ("__weakref__", "args", "kwargs", "threads")

    def __init__(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.args = args
        self.kwargs = kwargs
        self.threads: Any = originals.local()

    def of_caller(self, owner: local) -> dict[str, Any]:
        """Return the caller's attributes. At the caller's first use, create them and call a subclass's ``__init__``."""
        me = getcurrent()
        if isinstance(me, Dhaga):
            found = self.get(me.ident)
            if found is None:
                found = self[me.ident] = {}
                # The reference is weak: a long-running dhaga must not keep a dropped local alive.
                me.drop_at_end(weakref.ref(self))
                try:
                    initialise(owner, self)
                except BaseException:  # the next use calls __init__() again
                    self.pop(me.ident, None)
                    raise
        else:
            found = self.threads.__dict__.get("attributes")
            if found is None:
                found = self.threads.attributes = {}
                try:
                    initialise(owner, self)
                except BaseException:
                    self.threads.__dict__.pop("attributes", None)
                    raise
        return found


def initialise(owner: local, namespaces: Namespaces) -> None:
    """Call a subclass's ``__init__``, as the standard class does in each thread that uses the object."""
    if type(owner).__init__ is not object.__init__:
        type(owner).__init__(owner, *namespaces.args, **namespaces.kwargs)


class local:  # the standard name
    """An object whose attributes are separate for each dhaga. Source: ``threading.local``.

    A subclass's ``__init__`` runs once for each dhaga that uses the object. A dhaga's attributes are dropped when the
    dhaga ends.

    >>> import dhaga
    >>> mine = local(); mine.x = 1
    >>> dhaga.spawn(hasattr, mine, "x").result(), mine.x
    (False, 1)
    """

    __slots__ = ("__weakref__", "_namespaces_")

    def __new__(cls, /, *args: Any, **kwargs: Any) -> Self:
        if (args or kwargs) and cls.__init__ is object.__init__:
            raise TypeError("Initialization arguments are not supported")
        self = object.__new__(cls)
        namespaces = Namespaces(args, kwargs)
        object.__setattr__(self, "_namespaces_", namespaces)
        # Create the caller's entry here: Python calls __init__() next, and of_caller() must not call __init__() again.
        me = getcurrent()
        if isinstance(me, Dhaga):
            namespaces[me.ident] = {}
            me.drop_at_end(weakref.ref(namespaces))
        else:
            namespaces.threads.attributes = {}
        return self

    __getstate__: Any = refuse_copy  # a copied object would share all attributes with the original

    @compiled  # in C only for an attribute that the calling dhaga has set, and that the class does not have
    def __getattribute__(self, name: str) -> Any:
        attributes = object.__getattribute__(self, "_namespaces_").of_caller(self)
        if name == "__dict__":
            return attributes
        # The order of object.__getattribute__() is kept: data descriptors of the class, attributes, other class
        # members.
        value = attributes.get(name, MISSING)
        if value is MISSING or is_data_descriptor(type(self), name):
            return object.__getattribute__(self, name)
        return value

    def __setattr__(self, name: str, value: Any) -> None:
        refuse_dict(self, name)
        attributes = object.__getattribute__(self, "_namespaces_").of_caller(self)
        if is_data_descriptor(type(self), name):
            object.__setattr__(self, name, value)
        else:
            attributes[name] = value

    def __delattr__(self, name: str) -> None:
        refuse_dict(self, name)
        attributes = object.__getattribute__(self, "_namespaces_").of_caller(self)
        if is_data_descriptor(type(self), name):
            object.__delattr__(self, name)
        elif name in attributes:
            del attributes[name]
        else:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}", name=name, obj=self)


def is_data_descriptor(kind: type, name: str) -> bool:
    if getattr(kind, name, MISSING) is MISSING:  # most names, and quicker than the search
        return False
    # The search is needed for a descriptor that does not return itself when it is read from the class.
    for each in kind.__mro__:
        if name in each.__dict__:
            found = type(each.__dict__[name])
            return hasattr(found, "__set__") or hasattr(found, "__delete__")
    return False


def refuse_dict(owner: local, name: str) -> None:
    if name == "__dict__":
        raise AttributeError(f"{type(owner).__name__!r} object attribute '__dict__' is read-only")
