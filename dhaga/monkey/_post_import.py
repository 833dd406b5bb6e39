"""Post-import hooks (PEP 369). They adapt packages on import, for example packages that wait in C or pass idents to C.

A finder at the front of ``sys.meta_path`` uses the other finders to find a package of ``HOOKED``, and wraps the
package's loader. ``HOOKED`` also names a module of Dhaga for each package: after the package has run, the wrapper
calls this module's ``install``. The hooks import no package that the program does not import.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from .._kernel.context_manager import contextmanager
from ..signal import standard_set_wakeup_fd
from ._real_threads import is_real, prepare

__all__ = ["HOOKED", "add_hooks", "remove_hooks"]

HOOKED = {
    "amqp.abstract_channel": "dhaga.integrations._amqp",
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
    "psycopg_pool.pool": "dhaga.integrations._psycopg_pool",
    "pymssql": "dhaga.integrations.pymssql",
    "snowflake.connector._internal.api_client.bridge": "dhaga.integrations.snowflake",
    "sqlalchemy.pool.impl": "dhaga.integrations.sqlalchemy",
    "sqlite3": "dhaga.integrations.sqlite3",
    "multiprocessing.synchronize": "dhaga.monkey._standard_bases",
    "mysql.connector.network": "dhaga.integrations._mysql_connector",
    "MySQLdb.connections": "dhaga.integrations.mysqlclient",
    "OpenSSL": "dhaga.integrations.pyopenssl",
    "pymysql.connections": "dhaga.integrations._pymysql",
    "trio": "dhaga.integrations.trio",
    "zmq": "dhaga.integrations.zmq",
}
"""The hooked packages and modules, each with the module whose ``install`` and ``uninstall`` are called."""

UVLOOP = "uvloop"
"""A package that stores ``signal.set_wakeup_fd`` on import. Later, any greenlet may call the stored function."""


@contextmanager
def standard_wakeup_fd() -> Iterator[None]:
    """Restore the standard ``signal.set_wakeup_fd`` in the block, because Dhaga's works only in the main code."""
    ours = signal.set_wakeup_fd
    signal.set_wakeup_fd = standard_set_wakeup_fd
    try:
        yield
    finally:
        signal.set_wakeup_fd = ours


class PostImportFinder:
    """A finder that wraps the loaders of hooked packages. It uses the other finders to find a package."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name not in HOOKED and name != UVLOOP and not is_real(name):
            return None
        for finder in sys.meta_path:
            find = None if finder is self else getattr(finder, "find_spec", None)  # old finders have no such method
            spec: ModuleSpec | None = None if find is None else find(name, path, target)
            if spec is not None:
                if spec.loader is not None:
                    spec.loader = PostImportLoader(spec.loader)  # type: ignore[assignment]
                return spec
        return None


class PostImportLoader:
    """A loader that calls a package's own loader, and then ``install``. The module sees only its own loader."""

    def __init__(self, own: Any) -> None:
        self.own = own

    def __getattr__(self, name: str) -> Any:
        if name == "own":  # the object has no attributes yet, as in copy.copy()
            raise AttributeError(name)
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
    """Return the name in a module's spec. For a stand-in for gevent or eventlet, this is ``dhaga.compat.…``."""
    return module.__name__ if module.__spec__ is None else module.__spec__.name


finder = PostImportFinder()


def add_hooks() -> None:
    """Call ``install`` for the hooked packages that are already imported, and for others when they are imported."""
    if finder not in sys.meta_path:
        sys.meta_path.insert(0, finder)
    for name in HOOKED.keys() & sys.modules.keys():
        import_module(HOOKED[name]).install()


def standard_names(module: str) -> Mapping[str, Any]:
    """Return the names that a hook replaces in a module of the standard library, each with its standard object."""
    ours = sys.modules.get(HOOKED.get(module.partition(".")[0], ""))
    return getattr(ours, "standard", {})


def remove_hooks() -> None:
    """Remove the finder, and call ``uninstall`` of each imported module of Dhaga in ``HOOKED``."""
    if finder in sys.meta_path:
        sys.meta_path.remove(finder)
    for ours in HOOKED.values():
        if ours in sys.modules:
            sys.modules[ours].uninstall()
