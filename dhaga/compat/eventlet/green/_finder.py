"""The finder of the modules that ``import eventlet.green.x`` loads."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from .... import monkey

FACES = dict.fromkeys(("os", "select", "selectors", "socket", "subprocess", "thread", "threading", "time"), "")
FACES["Queue"] = "queue"
"""For each name below ``green``, Dhaga's module; an empty string means the same name."""

STANDARD = {"builtin": "builtins", "profile": "profile"}
"""For each name below ``green``, a standard module that never waits."""

OWN = frozenset({"ssl"})
"""Names below ``green`` that are modules of this package. They define functions that Python has removed, such as
``ssl.wrap_socket``.
"""

COPIES = {
    "BaseHTTPServer": "http.server",
    "CGIHTTPServer": "http.server",
    "SimpleHTTPServer": "http.server",
    "SocketServer": "socketserver",
    "ftplib": "ftplib",
    "http": "http",
    "httplib": "http.client",
    "smtplib": "smtplib",
    "urllib": "urllib",
    "urllib2": "urllib.request",
}
"""For each name below ``green``, a standard module or package that gets a private copy."""

private = monkey.patched_imports("http", "urllib", "ftplib", "smtplib", "socketserver")


class GreenPackage(ModuleType):
    """A stand-in for a standard package. Private modules are attributes of the stand-in, not of the standard
    package.
    """

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.__path__: list[str] = []

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        try:
            return private.import_module(f"{self.__name__}.{name}")
        except ModuleNotFoundError:
            return getattr(importlib.import_module(self.__name__), name)


packages = {name: GreenPackage(name) for name in ("http", "urllib")}


def module_of(name: str) -> ModuleType:
    """Return the module of a name below ``green``. Raises: ModuleNotFoundError."""
    first, _, rest = name.partition(".")
    if name in OWN:
        return importlib.import_module(f"{__package__}.{name}")
    if not rest and first in FACES:
        return importlib.import_module(f"{__name__.split('.')[0]}.{FACES[first] or first}")
    if name in STANDARD:
        return importlib.import_module(STANDARD[name])
    if first in COPIES:
        full = f"{COPIES[first]}.{rest}" if rest else COPIES[first]
        return packages[full] if full in packages else private.import_module(full)
    raise ModuleNotFoundError(
        f"eventlet.green has no {name!r} here: import it by dhaga.monkey.patched_imports({name!r})", name=name
    )


class GreenFinder(MetaPathFinder):
    """A finder of the modules below ``dhaga.compat.eventlet.green``. CompatFinder uses it for ``eventlet.green``."""

    def __init__(self) -> None:
        self.package = ""

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: Any = None) -> ModuleSpec | None:
        below = name.removeprefix(f"{self.package}.")
        if below == name or below.startswith("_") or below in OWN:
            return None
        try:
            module = module_of(below)
        except ImportError:
            return None
        spec = ModuleSpec(name, GreenLoader(module), origin=getattr(module, "__file__", None))
        if hasattr(module, "__path__"):
            spec.submodule_search_locations = []
        return spec


class GreenLoader(Loader):
    """Loader that returns an existing module unchanged."""

    def __init__(self, module: ModuleType) -> None:
        self.module = module

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        self.own_spec = self.module.__spec__
        return self.module

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self.own_spec


finder = GreenFinder()


def install(package: str) -> None:
    """Register the finder for the modules below a package."""
    finder.package = package
    if finder not in sys.meta_path:
        sys.meta_path.insert(0, finder)
