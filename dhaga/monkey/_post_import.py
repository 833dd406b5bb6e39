"""Post-import hooks (PEP 369): packages that wait in C, or pass idents to C, are adapted as they are imported.

A finder at the front of ``sys.meta_path`` finds a package of ``HOOKED`` by the other finders, and wraps its loader; the
wrapped loader calls ``install`` once the package has run. Only modules that the program itself imports are imported.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator, Sequence
from importlib import import_module
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from .._kernel.context_manager import contextmanager
from ..signal import standard_set_wakeup_fd
from ._real_threads import is_real, prepare

__all__ = ["HOOKED", "add_hooks", "remove_hooks"]

HOOKED = {
    "celery.concurrency": "dhaga.integrations._short_names",
    "ctypes": "dhaga.integrations.ctypes",
    "curl_cffi.curl": "dhaga.integrations.curl_cffi",
    "eventlet": "dhaga.monkey._other_hubs",
    "eventlet.patcher": "dhaga.monkey._other_patches",
    "gevent": "dhaga.monkey._other_hubs",
    "gevent.monkey": "dhaga.monkey._other_patches",
    "grpc": "dhaga.integrations.grpc",
    "gunicorn.workers": "dhaga.integrations._short_names",
    "ldap": "dhaga.integrations.ldap",
    "mariadb": "dhaga.integrations.mariadb",
    "psycopg": "dhaga.integrations.psycopg",
    "psycopg2": "dhaga.integrations.psycopg2",
    "pymssql": "dhaga.integrations.pymssql",
    "snowflake.connector._internal.api_client.bridge": "dhaga.integrations.snowflake",
    "sqlalchemy.pool.impl": "dhaga.integrations.sqlalchemy",
    "sqlite3": "dhaga.integrations.sqlite3",
    "multiprocessing.synchronize": "dhaga.monkey._standard_bases",
    "MySQLdb.connections": "dhaga.integrations.mysqlclient",
    "OpenSSL": "dhaga.integrations.pyopenssl",
    "trio": "dhaga.integrations.trio",
    "zmq": "dhaga.integrations.zmq",
}
"""Package or module -> the module whose ``install`` and ``uninstall`` are called."""

UVLOOP = "uvloop"
"""Binds ``signal.set_wakeup_fd`` at its import, and calls it anywhere in the main OS thread."""


@contextmanager
def standard_wakeup_fd() -> Iterator[None]:
    """Restore the standard ``signal.set_wakeup_fd`` meanwhile: ours would refuse a loop that a dhaga runs."""
    ours = signal.set_wakeup_fd
    signal.set_wakeup_fd = standard_set_wakeup_fd
    try:
        yield
    finally:
        signal.set_wakeup_fd = ours


class PostImportFinder:
    """A finder that wraps the loaders of the hooked packages; it finds nothing by itself."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name not in HOOKED and name != UVLOOP and not is_real(name):
            return None
        for finder in sys.meta_path:
            spec = None if finder is self else finder.find_spec(name, path, target)
            if spec is not None:
                if spec.loader is not None:
                    spec.loader = PostImportLoader(spec.loader)  # type: ignore[assignment]
                return spec
        return None


class PostImportLoader:
    """Loads a package by its own loader, which stays the module's ``__loader__``, and then calls ``install``."""

    def __init__(self, own: Any) -> None:
        self.own = own

    def __getattr__(self, name: str) -> Any:
        return getattr(self.own, name)

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        module: ModuleType | None = self.own.create_module(spec)
        return module

    def exec_module(self, module: ModuleType) -> None:
        module.__loader__ = self.own
        if module.__spec__ is not None:
            module.__spec__.loader = self.own
        if is_real(module.__name__):
            prepare(module)
        if module.__name__ == UVLOOP:
            with standard_wakeup_fd():
                self.own.exec_module(module)
            return
        self.own.exec_module(module)
        hook = HOOKED.get(name_of(module))
        if hook is not None and finder in sys.meta_path:
            import_module(hook).install()


def name_of(module: ModuleType) -> str:
    """Return the name by which a module was found; the gevent of ``dhaga.compat`` has ours."""
    return module.__name__ if module.__spec__ is None else module.__spec__.name


finder = PostImportFinder()


def add_hooks() -> None:
    """Install for the packages that are imported already, and for the others when they are imported."""
    if finder not in sys.meta_path:
        sys.meta_path.insert(0, finder)
    for name in HOOKED.keys() & sys.modules.keys():
        import_module(HOOKED[name]).install()


def remove_hooks() -> None:
    """Undo ``add_hooks``."""
    if finder in sys.meta_path:
        sys.meta_path.remove(finder)
    for ours in HOOKED.values():
        if ours in sys.modules:
            sys.modules[ours].uninstall()
