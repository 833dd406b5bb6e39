"""The standard library of private modules: each standard module is shared, is copied, or has a face.

- A **face** is a new module with the contents of the public module, except for names that must be private. The modules
  of the patch's table have faces. In a face, the names of the table are Dhaga's; exceptions, constants and enums are
  the public module's own.
- A **copy** is a second run of the module's code, which imports the faces. Standard modules that wait through names in
  the table are copied (``COPIES``).
- All other modules are **shared**: they are the public modules, with the same errors and classes everywhere. Most of
  them never wait, or wait only for locks that are held briefly.

``_private_imports.py`` imports the private modules.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterable
from functools import reduce
from pkgutil import resolve_name
from types import FunctionType, ModuleType
from typing import Any, Protocol

__all__ = ["COPIES", "Importer", "Overlay", "PrivateStdlib"]

COPIES = frozenset(
    {
        # These modules wait.
        *("asynchat", "asyncore", "concurrent.futures.thread", "ftplib", "http.client", "http.server", "imaplib"),
        *("logging.config", "logging.handlers", "mailcap", "multiprocessing.dummy", "multiprocessing.dummy.connection"),
        *("multiprocessing.pool", "nntplib", "pipes", "poplib", "pty", "sched", "smtpd", "smtplib", "socketserver"),
        *("telnetlib", "urllib.request", "urllib.robotparser", "webbrowser", "wsgiref.simple_server"),
        *("xmlrpc.client", "xmlrpc.server"),
        # These modules import other modules by name.
        *("importlib.resources", "importlib.resources._common", "importlib.resources._functional"),
        *("importlib.resources._legacy", "importlib.util", "pickle", "pkgutil", "shelve"),
    }
)
"""Standard modules that are copied.

``tests/monkey/test_private_stdlib.py`` checks the first part, and lists the waiting modules that are shared
nevertheless.
"""

MODULE_LOOKUPS = {
    "dataclasses": ("dataclass", "make_dataclass"),
    "inspect": ("findsource", "get_annotations", "getabsfile", "getfile", "getmodule", "getsource", "getsourcefile")
    + ("getsourcelines",),
    "typing": ("get_type_hints",),
}
"""For each module, its functions that read ``sys.modules``. In the module's face, they use the private ``sys``."""

FUTURES = ("Future", "as_completed", "wait")
"""Names of ``dhaga.futures``. The patch's table lacks them: under the patch, the standard names use Dhaga's locks."""

PICKLE_NAMES = ("PickleBuffer", "PickleError", "PicklingError", "UnpicklingError")
"""The names that the private ``pickle`` may import from its C module. The other functions of the C module look classes
up in the public modules.
"""


class Overlay(Protocol):
    """The interface of a row of the patch's table; see ``monkey.Row``."""

    @property
    def module(self) -> str: ...
    @property
    def ours(self) -> str: ...
    @property
    def names(self) -> tuple[str, ...]: ...
    @property
    def when(self) -> bool: ...


class Importer(Protocol):
    """The interface through which the faces use private modules."""

    modules: dict[str, ModuleType]
    meta_path: list[Any]
    builtins: dict[str, Any]

    def import_(
        self, name: str, globals: Any = None, locals: Any = None, fromlist: Any = (), level: int = 0
    ) -> ModuleType: ...
    def import_module(self, name: str, package: str | None = None) -> ModuleType: ...
    def reload(self, module: ModuleType) -> ModuleType: ...


class PrivateStdlib:
    """The standard library of one set of private modules."""

    def __init__(self, table: Iterable[Overlay], private: Importer) -> None:
        self.private = private
        self.rows: dict[str, list[tuple[str, str, tuple[str, ...]]]] = {
            "concurrent.futures": [("", "dhaga.futures", FUTURES)],
            "concurrent.futures._base": [("", "dhaga.futures", FUTURES)],
        }
        for row in table:
            if row.when:
                module, _, cls = row.module.partition(":")
                self.rows.setdefault(module, []).append((cls, row.ours, row.names))
        self.not_shared = COPIES | set(self.rows)
        self.parents = {name.rpartition(".")[0] for name in self.not_shared} - self.not_shared - {""}
        self.makers: dict[str, Callable[[ModuleType], ModuleType]] = {
            "_pickle": self.pickle_face,
            "importlib": self.importlib_face,
            "importlib.metadata": self.metadata_face,
            "sys": self.sys_face,
            **dict.fromkeys(self.parents - {"importlib"}, self.package_face),
            **dict.fromkeys(MODULE_LOOKUPS, self.lookup_face),
            **dict.fromkeys(self.rows, self.table_face),
            "concurrent.futures": self.futures_face,
        }

    def has(self, name: str) -> bool:
        """Return whether a module belongs to the standard library or is the main module."""
        return name.partition(".")[0] in sys.stdlib_module_names or name in ("__main__", "__mp_main__")

    def shares(self, name: str) -> bool:
        """Return whether a standard module is shared."""
        return name not in COPIES and name not in self.makers

    def face_of(self, name: str) -> ModuleType:
        """Return a new face of a standard module that is neither shared nor copied."""
        return self.makers[name](importlib.import_module(name))

    def replaced_in(self, name: str) -> list[str]:
        """Return the names that the table replaces in a module."""
        return [each for _, _, names in self.rows.get(name, ()) for each in names]

    # ---- the faces

    def package_face(self, public: ModuleType) -> ModuleType:
        """Return the face of a package that contains modules that are not shared."""
        name = public.__name__
        face = ModuleType(name)
        vars(face).update({key: value for key, value in vars(public).items() if f"{name}.{key}" not in self.not_shared})

        def attribute(key: str) -> Any:
            child = f"{name}.{key}"
            if child in self.not_shared and child in sys.modules:  # as in the public package after the child's import
                return self.private.import_module(child)
            return getattr(public, key)

        vars(face).update(__builtins__=self.private.builtins, __getattr__=attribute)
        return face

    def table_face(self, public: ModuleType) -> ModuleType:
        """Return the face of a module of the table. Its functions are copies that use the replacements of the patch."""
        face = self.package_face(public)
        rebind_globals(public, vars(face))
        for cls, place, names in self.rows[public.__name__]:
            ours = resolve_name(place)
            vars(face).update({cls: ours} if cls else {name: getattr(ours, name) for name in names})
        return face

    def futures_face(self, public: ModuleType) -> ModuleType:
        """Return the face of ``concurrent.futures``, which imports its executors when they are first used."""
        face = self.table_face(public)
        vars(face).pop("ThreadPoolExecutor", None)
        outer = face.__getattr__

        def attribute(key: str) -> Any:
            if key == "ThreadPoolExecutor":
                return self.private.import_module("concurrent.futures.thread").ThreadPoolExecutor
            return outer(key)

        vars(face).update(__getattr__=attribute)
        return face

    def lookup_face(self, public: ModuleType) -> ModuleType:
        """Return the face of a module that has functions of ``MODULE_LOOKUPS``."""
        face = self.package_face(public)
        inside = {**vars(face), "sys": self.private.modules["sys"]}
        rebind_globals(public, inside)
        vars(face).update({name: inside[name] for name in MODULE_LOOKUPS[public.__name__] if name in inside})
        return face

    def importlib_face(self, public: ModuleType) -> ModuleType:
        face = self.package_face(public)
        private = self.private
        vars(face).update(__import__=private.import_, import_module=private.import_module, reload=private.reload)
        return face

    def metadata_face(self, public: ModuleType) -> ModuleType:
        """Return the face of ``importlib.metadata``, whose entry points load private modules."""
        import_module = self.private.import_module

        class EntryPoint(public.EntryPoint):  # type: ignore[name-defined, misc]
            def load(self) -> Any:
                return reduce(getattr, filter(None, self.attr.split(".")), import_module(self.module))

        def entry_points(**parameters: Any) -> Any:
            found = public.entry_points(**parameters)
            if isinstance(found, dict):  # Python 3.11 returns a dict from groups to entry points
                return found
            return public.EntryPoints(EntryPoint(each.name, each.value, each.group)._for(each.dist) for each in found)

        face = self.package_face(public)
        vars(face).update(EntryPoint=EntryPoint, entry_points=entry_points)
        return face

    def pickle_face(self, public: ModuleType) -> ModuleType:
        face = ModuleType(public.__name__)
        vars(face).update({name: getattr(public, name) for name in PICKLE_NAMES})
        return face

    def sys_face(self, public: ModuleType) -> ModuleType:
        return PrivateSys(modules=self.private.modules, meta_path=self.private.meta_path)


class PrivateSys(ModuleType):
    """The face of ``sys``. Modules and importers are private; other names are read and set in the public ``sys``."""

    def __init__(self, **private: Any) -> None:
        super().__init__("sys", sys.__doc__)
        calls = {key: value for key, value in vars(sys).items() if type(value) is type(len) and "hook" not in key}
        vars(self).update(calls, __spec__=sys.__spec__, __loader__=sys.__loader__, **private)

    def __getattr__(self, name: str) -> Any:
        return getattr(sys, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(sys, name, value)

    def __delattr__(self, name: str) -> None:
        delattr(sys, name)

    def __dir__(self) -> list[str]:
        return dir(sys)


def rebind_globals(public: ModuleType, namespace: dict[str, Any]) -> None:
    """Replace a module's functions in a namespace with copies that have the namespace as their globals."""
    for name, value in list(namespace.items()):
        if type(value) is FunctionType and value.__globals__ is vars(public):
            namespace[name] = with_globals(value, namespace)


def with_globals(function: FunctionType, namespace: dict[str, Any]) -> FunctionType:
    other = FunctionType(function.__code__, namespace, function.__name__, function.__defaults__, function.__closure__)
    other.__kwdefaults__ = function.__kwdefaults__
    other.__qualname__, other.__doc__ = function.__qualname__, function.__doc__
    other.__annotations__ = function.__annotations__
    vars(other).update(vars(function))
    return other
