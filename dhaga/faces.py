"""The standard library as privately imported packages see it: which modules are shared, copied, or shown by a face.

- A **face** is a module with the public one's contents, but for what it must have of its own. The modules of the swap's
  table have faces: exceptions, constants and enums stay the public ones, and what is replaced is ours.
- A **copy** is run anew, so that it holds the faces: standard modules that wait by means of the table (``COPIES``).
- All else is **shared**: the public module itself. Whoever catches its errors or looks for its classes must find the
  same objects, and it waits for nothing but a lock that is held for a moment.

What imports modules lives in ``imports.py``.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterable
from functools import reduce
from pkgutil import resolve_name
from types import FunctionType, ModuleType
from typing import Any, Protocol

__all__ = ["COPIES", "Library", "Rooted", "Row"]

COPIES = frozenset(
    {
        # These wait.
        *("asynchat", "asyncore", "concurrent.futures.thread", "ftplib", "http.client", "http.server", "imaplib"),
        *("logging.config", "logging.handlers", "mailcap", "multiprocessing.dummy", "multiprocessing.dummy.connection"),
        *("multiprocessing.pool", "nntplib", "pipes", "poplib", "pty", "sched", "smtpd", "smtplib", "socketserver"),
        *("telnetlib", "urllib.request", "urllib.robotparser", "webbrowser", "wsgiref.simple_server"),
        *("xmlrpc.client", "xmlrpc.server"),
        # These import what they are given the name of.
        *("importlib.resources", "importlib.resources._common", "importlib.resources._functional"),
        *("importlib.resources._legacy", "importlib.util", "pickle", "pkgutil", "shelve"),
    }
)
"""Standard modules that are copied. ``tests/test_imports.py`` computes the first part, and names what is shared though
it is found there."""

LOOKERS = {
    "dataclasses": ("dataclass", "make_dataclass"),
    "inspect": ("findsource", "get_annotations", "getabsfile", "getfile", "getmodule", "getsource", "getsourcefile")
    + ("getsourcelines",),
    "typing": ("get_type_hints",),
}
"""Functions that look for a class's module in ``sys.modules``: they get one where it is found."""

FUTURES = ("Future", "as_completed", "wait")
"""Of ``dhaga.futures``. The swap needs no row for these: it has the standard's own wait by our locks."""

PICKLE = ("PickleBuffer", "PickleError", "PicklingError", "UnpicklingError")
"""All that ``pickle`` gets of its compiled half, the rest of which looks for classes among the public modules."""


class Row(Protocol):
    """A row of the swap's table: see ``monkey.Row``."""

    @property
    def module(self) -> str: ...
    @property
    def ours(self) -> str: ...
    @property
    def names(self) -> tuple[str, ...]: ...
    @property
    def when(self) -> bool: ...


class Rooted(Protocol):
    """What a face needs of the world that it stands in."""

    modules: dict[str, ModuleType]
    meta_path: list[Any]
    builtins: dict[str, Any]

    def import_(
        self, name: str, globals: Any = None, locals: Any = None, fromlist: Any = (), level: int = 0
    ) -> ModuleType: ...
    def import_module(self, name: str, package: str | None = None) -> ModuleType: ...
    def reload(self, module: ModuleType) -> ModuleType: ...


class Library:
    """The standard library of one world."""

    def __init__(self, table: Iterable[Row], world: Rooted) -> None:
        self.world = world
        self.rows: dict[str, list[tuple[str, str, tuple[str, ...]]]] = {
            "concurrent.futures": [("", "dhaga.futures", FUTURES)],
            "concurrent.futures._base": [("", "dhaga.futures", FUTURES)],
        }
        for row in table:
            if row.when:
                module, _, cls = row.module.partition(":")
                self.rows.setdefault(module, []).append((cls, row.ours, row.names))
        self.own = COPIES | set(self.rows)
        self.parents = {name.rpartition(".")[0] for name in self.own} - self.own - {""}
        self.makers: dict[str, Callable[[ModuleType], ModuleType]] = {
            "_pickle": self.pickle,
            "importlib": self.importlib,
            "importlib.metadata": self.metadata,
            "sys": self.system,
            **dict.fromkeys(self.parents - {"importlib"}, self.face),
            **dict.fromkeys(LOOKERS, self.looker),
            **dict.fromkeys(self.rows, self.replaced),
            "concurrent.futures": self.futures,
        }

    def has(self, name: str) -> bool:
        """Tell whether a module is of the standard library."""
        return name.partition(".")[0] in sys.stdlib_module_names or name in ("__main__", "__mp_main__")

    def shares(self, name: str) -> bool:
        """Tell whether a standard module is the public one."""
        return name not in COPIES and name not in self.makers

    def face_of(self, name: str) -> ModuleType:
        """Return a new face of a standard module that is neither shared nor copied."""
        return self.makers[name](importlib.import_module(name))

    # ---- the faces

    def face(self, public: ModuleType) -> ModuleType:
        """Return the face of a package that is shared, though some of its modules are not."""
        name = public.__name__
        face = ModuleType(name)
        vars(face).update({key: value for key, value in vars(public).items() if f"{name}.{key}" not in self.own})

        def attribute(key: str) -> Any:
            child = f"{name}.{key}"
            if child in self.own and child in sys.modules:  # there it works without an import, too
                return self.world.import_module(child)
            return getattr(public, key)

        vars(face).update(__builtins__=self.world.builtins, __getattr__=attribute)
        return face

    def replaced(self, public: ModuleType) -> ModuleType:
        """Return the face of a module of the table. Its functions see what is replaced."""
        face = self.face(public)
        rebind(public, vars(face))
        for cls, place, names in self.rows[public.__name__]:
            ours = resolve_name(place)
            vars(face).update({cls: ours} if cls else {name: getattr(ours, name) for name in names})
        return face

    def futures(self, public: ModuleType) -> ModuleType:
        """Return the face of ``concurrent.futures``, which takes its executors from its modules when asked for them."""
        face = self.replaced(public)
        vars(face).pop("ThreadPoolExecutor", None)
        former = face.__getattr__

        def attribute(key: str) -> Any:
            if key == "ThreadPoolExecutor":
                return self.world.import_module("concurrent.futures.thread").ThreadPoolExecutor
            return former(key)

        vars(face).update(__getattr__=attribute)
        return face

    def looker(self, public: ModuleType) -> ModuleType:
        """Return the face of a module some functions of which look into ``sys.modules``."""
        face = self.face(public)
        inside = {**vars(face), "sys": self.world.modules["sys"]}
        rebind(public, inside)
        vars(face).update({name: inside[name] for name in LOOKERS[public.__name__] if name in inside})
        return face

    def importlib(self, public: ModuleType) -> ModuleType:
        face = self.face(public)
        world = self.world
        vars(face).update(__import__=world.import_, import_module=world.import_module, reload=world.reload)
        return face

    def metadata(self, public: ModuleType) -> ModuleType:
        """Return the face of ``importlib.metadata``, the entry points of which load within the world."""
        import_module = self.world.import_module

        class EntryPoint(public.EntryPoint):  # type: ignore[name-defined, misc]
            def load(self) -> Any:
                return reduce(getattr, filter(None, self.attr.split(".")), import_module(self.module))

        def entry_points(**parameters: Any) -> Any:
            found = public.entry_points(**parameters)
            if isinstance(found, dict):  # of 3.11, by group
                return found
            return public.EntryPoints(EntryPoint(each.name, each.value, each.group)._for(each.dist) for each in found)

        face = self.face(public)
        vars(face).update(EntryPoint=EntryPoint, entry_points=entry_points)
        return face

    def pickle(self, public: ModuleType) -> ModuleType:
        face = ModuleType(public.__name__)
        vars(face).update({name: getattr(public, name) for name in PICKLE})
        return face

    def system(self, public: ModuleType) -> ModuleType:
        return System(modules=self.world.modules, meta_path=self.world.meta_path)


class System(ModuleType):
    """The face of ``sys``: modules and importers are the world's own, whatever else is read and set is the public's."""

    def __init__(self, **own: Any) -> None:
        super().__init__("sys", sys.__doc__)
        calls = {key: value for key, value in vars(sys).items() if type(value) is type(len) and "hook" not in key}
        vars(self).update(calls, __spec__=sys.__spec__, __loader__=sys.__loader__, **own)

    def __getattr__(self, name: str) -> Any:
        return getattr(sys, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(sys, name, value)

    def __delattr__(self, name: str) -> None:
        delattr(sys, name)

    def __dir__(self) -> list[str]:
        return dir(sys)


def rebind(public: ModuleType, namespace: dict[str, Any]) -> None:
    """Have the functions that a namespace has from a module look for their globals in the namespace."""
    for name, value in list(namespace.items()):
        if type(value) is FunctionType and value.__globals__ is vars(public):
            namespace[name] = bound_to(value, namespace)


def bound_to(function: FunctionType, namespace: dict[str, Any]) -> FunctionType:
    other = FunctionType(function.__code__, namespace, function.__name__, function.__defaults__, function.__closure__)
    other.__kwdefaults__ = function.__kwdefaults__
    other.__qualname__, other.__doc__ = function.__qualname__, function.__doc__
    other.__annotations__ = function.__annotations__
    vars(other).update(vars(function))
    return other
