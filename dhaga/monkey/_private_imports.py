"""Imports private, patched copies of packages in addition to the public ones (``dhaga.monkey.patched_imports``).

``PrivateModules`` is a second ``sys.modules``, with private modules under their public names. Private modules run with
a ``__builtins__`` whose ``__import__`` uses the second ``sys.modules``. So later imports in their functions, in any
dhaga or OS thread, are also private. The system's finders and loaders load modules that are not shared
(``_is_shared``), so that byte code, source lines and data files are found as usual. ``ModuleLocks`` stores the greenlet
that loads a module. If two loads wait for each other, one gets the half-loaded module, as with importlib.

``ImportHook`` replaces ``builtins.__import__`` during ``with`` blocks. For greenlets outside such a block, the hook
calls the replaced function. Inside an import the hook is bypassed, so that imports by public modules are public.

Limits: code that looks up a module by name outside an import finds the public module. So only the private ``pickle``
can write and read pickles of private objects, ``multiprocessing`` can start private functions only with fork, and
``mock.patch("name")`` changes the public module. Private modules do not see names that are added to ``builtins`` later.
Rejected: changing ``sys.modules`` temporarily, because other OS threads import meanwhile, and functions import later.
"""

from __future__ import annotations

import builtins
import contextlib
import importlib
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib.machinery import EXTENSION_SUFFIXES, ExtensionFileLoader, ModuleSpec
from importlib.util import module_from_spec, resolve_name, spec_from_file_location
from types import ModuleType, TracebackType
from typing import Any, Self

from greenlet import getcurrent, greenlet

from .._kernel.context_manager import contextmanager
from .._kernel.originals import allocate_lock
from .._sync.event import Event
from ._private_stdlib import Overlay, PrivateStdlib

__all__ = ["PrivateModules"]

SHARED = ("dhaga", "greenlet", "tornado")
"""Packages that are never copied, because a wake by a private scheduler would not reach a public scheduler's dhagas."""


class PrivateModules:
    """Modules that import each other, separate from those in ``sys.modules``. ``patched_imports`` creates them.

    An instance is a context manager: within the block, the caller's imports of the named packages are private. A caller
    may use an instance for several blocks.
    """

    def __init__(self, table: Iterable[Overlay], names: Sequence[str], shared: Sequence[str] = ()) -> None:
        if not names or not all(isinstance(name, str) and name for name in names):
            raise TypeError('name the packages to import: patched_imports("pymysql", "boto3")')
        self._names = tuple(names)
        self._shared = (*SHARED, *shared)
        self._top_names = frozenset(name.partition(".")[0] for name in names)
        self.builtins: dict[str, Any] = {**vars(builtins), "__import__": self.import_}
        if hasattr(builtins, "__lazy_import__"):
            # Make lazy imports (3.15) eager. Otherwise, ``lazy from threading import Lock`` would import publicly.
            self.builtins["__lazy_import__"] = self.import_at_once
        self.meta_path: list[Any] = list(sys.meta_path)
        self.modules: dict[str, ModuleType] = {}
        self._loads = ModuleLocks()
        self._compiled: dict[str, bool] = {}  # by package: whether it has compiled modules, and is therefore shared
        self._stdlib = PrivateStdlib(table, self)
        faces = {name: self._stdlib.face_of(name) for name in ("sys", "builtins")}
        self.modules.update(faces)
        self.builtins.update({name: getattr(faces["builtins"], name) for name in self._stdlib.replaced_in("builtins")})

    def __repr__(self) -> str:
        private = [name for name, module in self.modules.items() if sys.modules.get(name) is not module]
        return f"<PrivateModules of {', '.join(self._names)}, {len(private)} modules of its own>"

    def __enter__(self) -> Self:
        import_hook.push(self)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        import_hook.pop()

    # ---- functions that import statements call

    def import_(
        self, name: str, globals: Any = None, locals: Any = None, fromlist: Any = (), level: int = 0
    ) -> ModuleType:
        """Import a private module. Source: ``builtins.__import__``."""
        absolute = resolve_name("." * level + name, package_of(globals or {})) if level else name
        module = self._load(absolute)
        if fromlist:
            if hasattr(module, "__path__"):
                self._load_attributes(module, fromlist)
            return module
        if type(fromlist) is list:  # called by PyImport_Import (import.c), which then reads the public sys.modules
            with import_hook.bypassed(), contextlib.suppress(ImportError):
                importlib.import_module(absolute)
        below = name.partition(".")[2]
        return self._load(absolute[: -len(below) - 1]) if below else module

    def import_at_once(self, *arguments: Any) -> ModuleType:
        """Import a private module at once for a lazy import statement. Source: ``builtins.__lazy_import__``."""
        return self.import_(*arguments[:5])  # 3.15.0rc1 passes the builtins as a further argument

    def import_module(self, name: str, package: str | None = None) -> ModuleType:
        """Import a private module, also outside the ``with`` block. Source: ``importlib.import_module``."""
        return self._load(resolve_name(name, package) if name.startswith(".") else name)

    def _load_attributes(self, package: ModuleType, names: Iterable[str]) -> None:
        """Import the submodules that a statement ``from package import …`` names."""
        for name in names:
            if name == "*":
                self._load_attributes(package, [n for n in getattr(package, "__all__", ()) if n != "*"])
            elif not hasattr(package, name):
                child = f"{package.__name__}.{name}"
                try:
                    self._load(child)
                except ModuleNotFoundError as error:
                    if error.name != child:
                        raise

    def reload(self, module: ModuleType) -> ModuleType:
        """Run a private module again. Source: ``importlib.reload``."""
        name = module.__spec__.name if module.__spec__ else module.__name__
        if self.modules.get(name) is not module:
            raise ImportError(f"module {name} not in sys.modules", name=name)
        if sys.modules.get(name) is module:
            return importlib.reload(module)
        if module.__spec__ and module.__spec__.loader:
            module.__spec__.loader.exec_module(module)
        return self.modules[name]

    # ---- loading a module

    def _load(self, name: str) -> ModuleType:
        """Return a module; load it if needed. Parks: during a load by another dhaga or OS thread (``event.wait``)."""
        module = self.modules.get(name)
        if module is None or name in self._loads:
            if module is None and name in self.modules:
                raise ModuleNotFoundError(f"import of {name} halted; None in sys.modules", name=name)
            self._load_first(name)
            module = self.modules[name]
        return module

    def _load_first(self, name: str) -> None:
        parent, _, tail = name.rpartition(".")
        package = self._load(parent) if parent else None
        with self._loads.loading(name) as is_loader:
            if not is_loader or name in self.modules:
                return
            if package is not None and not hasattr(package, "__path__") and name not in sys.modules:
                raise ModuleNotFoundError(f"No module named {name!r}; {parent!r} is not a package", name=name)
            with import_hook.bypassed():
                module = self._make(name, getattr(package, "__path__", None))
            if package is not None and not self._is_shared(parent):
                setattr(package, tail, module)

    def _make(self, name: str, path: Any) -> ModuleType:
        """Store and return a module: the public one, a face (see ``_private_stdlib``), or a copy, which runs now."""
        if self._is_shared(name):
            self.modules[name] = importlib.import_module(name)
        elif name in self._stdlib.makers:
            self.modules[name] = self._stdlib.face_of(name)
        else:
            self._run(self._spec_of(name, path))
        return self.modules[name]

    def _is_shared(self, name: str) -> bool:
        """Return whether private modules use the public module of this name."""
        if within(name, self._names):
            return False
        if self._stdlib.has(name):
            return self._stdlib.shares(name)
        return within(name, self._shared) or self._is_compiled(name.partition(".")[0])

    def _is_compiled(self, top: str) -> bool:
        """Return whether a package must be shared because its compiled modules import each other publicly.

        Returns: False for the packages that the caller of ``patched_imports`` named.
        """
        if top not in self._compiled:
            spec = None if top in self._top_names else self._find(top, None)
            self._compiled[top] = spec is not None and brings_extensions(spec)
        return self._compiled[top]

    def _spec_of(self, name: str, path: Any) -> ModuleSpec:
        spec = self._find(name, path)
        if spec is None:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return source_of(spec)

    def _find(self, name: str, path: Any) -> ModuleSpec | None:
        for finder in list(self.meta_path):
            try:
                spec: ModuleSpec | None = finder.find_spec(name, path)
            except (KeyError, ModuleNotFoundError):  # ModuleNotFoundError since Python 3.15
                # A nested namespace package looks up its parent's path in the public modules, which lack the parent.
                spec = namespace_of(name, path)
            if spec is not None:
                return spec
        return None

    def _run(self, spec: ModuleSpec) -> None:
        """Run a new module. If it fails, remove the module and its submodules."""
        name = spec.name
        public = sys.modules.get(name)
        if isinstance(spec.loader, ExtensionFileLoader) and public is not None:
            self.modules[name] = public
            return
        module = module_from_spec(spec)
        vars(module).setdefault("__builtins__", self.builtins)
        if spec.submodule_search_locations is not None:
            module.__path__ = list(spec.submodule_search_locations)
        self.modules[name] = module
        try:
            with self._visible_in_package(module):
                if spec.loader is not None:
                    spec.loader.exec_module(module)
        except BaseException:
            for key in [key for key in self.modules if within(key, (name,))]:
                del self.modules[key]
            raise
        finally:
            if isinstance(spec.loader, ExtensionFileLoader):
                sys.modules.pop(name, None)

    @contextmanager
    def _visible_in_package(self, module: ModuleType) -> Iterator[None]:
        """Set a module as an attribute of its package already while the module runs.

        Otherwise, in an import cycle, ``from . import x`` would look up ``x`` in the public ``sys.modules``.
        """
        parent, _, tail = module.__name__.rpartition(".")
        package = self.modules.get(parent)
        if package is None or hasattr(package, tail) or sys.modules.get(parent) is package:
            yield
            return
        setattr(package, tail, module)
        try:
            yield
        except BaseException:
            if vars(package).get(tail) is module:
                delattr(package, tail)
            raise


def within(name: str, packages: Iterable[str]) -> bool:
    return any(name == package or name.startswith(f"{package}.") for package in packages)


def package_of(namespace: dict[str, Any]) -> str:
    """Return the package on which relative imports in a namespace are based."""
    package = namespace.get("__package__")
    if package is None:
        spec = namespace.get("__spec__")
        name = namespace["__name__"]
        package = spec.parent if spec else name if "__path__" in namespace else name.rpartition(".")[0]
    return str(package)


def namespace_of(name: str, path: Iterable[str]) -> ModuleSpec | None:
    tail = name.rpartition(".")[2]
    portions = [portion for entry in path if os.path.isdir(portion := os.path.join(entry, tail))]
    spec = ModuleSpec(name, None, is_package=True)
    spec.submodule_search_locations = portions
    return spec if portions else None


def source_of(spec: ModuleSpec) -> ModuleSpec:
    """Return the spec of the source file next to a compiled module, or ``spec`` if there is no such file.

    Compiled code would make public imports.
    """
    if isinstance(spec.loader, ExtensionFileLoader) and spec.origin:
        source = os.path.join(os.path.dirname(spec.origin), f"{spec.name.rpartition('.')[2]}.py")
        if os.path.exists(source):
            return spec_from_file_location(spec.name, source) or spec
    return spec


def brings_extensions(spec: ModuleSpec) -> bool:
    """Return whether a package or one of its subpackages contains a compiled module."""
    suffixes = tuple(EXTENSION_SUFFIXES)
    if (spec.origin or "").endswith(suffixes):
        return True
    return any(
        name.endswith(suffixes) for place in spec.submodule_search_locations or () for name in files_of_package(place)
    )


def files_of_package(place: str) -> Iterator[str]:
    for _, folders, files in os.walk(place):
        if "__init__.py" not in files:
            folders.clear()
        yield from files


class ModuleLocks:
    """The loading greenlet of each module that is being loaded. In a cycle, one load gets a half-loaded module."""

    def __init__(self) -> None:
        self.lock = allocate_lock()
        self.running: dict[str, tuple[greenlet, Event]] = {}
        self.waiting: dict[greenlet, str] = {}

    def __contains__(self, name: str) -> bool:
        return name in self.running

    @contextmanager
    def loading(self, name: str) -> Iterator[bool]:
        """Yield whether the caller must load a module. Parks: during a load by another greenlet (``event.wait``)."""
        done = self.begin(name)
        if done is None:
            yield False
            return
        try:
            yield True
        finally:
            with self.lock:
                del self.running[name]
            done.set()

    def begin(self, name: str) -> Event | None:
        """Return the event that the caller must set after it has loaded the module, or None in a cycle."""
        me = getcurrent()
        while True:
            with self.lock:
                if name not in self.running:
                    self.running[name] = me, Event()
                    return self.running[name][1]
                if self.is_cycle(name, me):
                    return None
                self.waiting[me] = name
                done = self.running[name][1]
            try:
                done.wait()
            finally:
                del self.waiting[me]

    def is_cycle(self, name: str, me: greenlet) -> bool:
        owner = self.running[name][0]
        while owner is not me and self.waiting.get(owner) in self.running:
            owner = self.running[self.waiting[owner]][0]
        return owner is me


class ImportHook:
    """The replacement of ``builtins.__import__`` for greenlets in a ``with`` block of private modules."""

    def __init__(self) -> None:
        self.lock = allocate_lock()
        self.former: Callable[..., ModuleType] = builtins.__import__
        self.installed: Callable[..., ModuleType] = self.import_
        self.blocks: dict[greenlet, list[PrivateModules | None]] = {}  # None hides the outer blocks from imports

    def push(self, modules: PrivateModules) -> None:
        with self.lock:
            self.blocks.setdefault(getcurrent(), []).append(modules)
            if builtins.__import__ is not self.installed:
                self.former, builtins.__import__ = builtins.__import__, self.installed

    def pop(self) -> None:
        with self.lock:
            me = getcurrent()
            if me not in self.blocks:
                raise RuntimeError("leave the block of patched_imports() in the dhaga or thread that entered it")
            self.blocks[me].pop()
            if not self.blocks[me]:
                del self.blocks[me]
            if not self.blocks and builtins.__import__ is self.installed:
                builtins.__import__ = self.former

    def import_(
        self, name: str, globals: Any = None, locals: Any = None, fromlist: Any = (), level: int = 0
    ) -> ModuleType:
        """Import privately, through the caller's innermost block that names the package; otherwise, import publicly."""
        blocks = self.blocks.get(getcurrent())
        if not blocks:
            return self.former(name, globals, locals, fromlist, level)
        absolute = resolve_name("." * level + name, package_of(globals or {})) if level else name
        importer = self.importer(blocks, absolute.partition(".")[0])
        with self.bypassed():
            return importer(name, globals, locals, fromlist, level)

    def importer(self, blocks: list[PrivateModules | None], top: str) -> Callable[..., ModuleType]:
        for modules in reversed(blocks):
            if modules is None:
                break
            if top in modules._top_names:
                return modules.import_
        return self.former

    @contextmanager
    def bypassed(self) -> Iterator[None]:
        """Make the caller's imports public within this ``with`` block."""
        blocks = self.blocks.get(getcurrent())
        if blocks is None:
            yield
            return
        blocks.append(None)
        try:
            yield
        finally:
            blocks.pop()


import_hook = ImportHook()
