"""Private, patched copies of packages, beside the public ones: ``dhaga.monkey.patched_imports``.

A *world* has modules of its own under their public names. They are run with a ``__builtins__`` whose ``__import__``
looks into the world, now and whenever a function of theirs imports something later, in whatever dhaga or OS thread.
What a world does not share (see ``shares``) it loads for itself by the system's finders and loaders, so that byte code,
source lines and data files are found as usual. ``builtins.__import__`` is hooked while a ``with`` block is open; for
others than who opened it the hook is the former one.

Who looks modules up by name outside a world finds the public ones: pickles of private objects are made and read by the
world's own ``pickle``; ``multiprocessing`` starts private functions by fork; ``mock.patch("name")`` changes the public
module. What is added to ``builtins`` after a world was made is not seen in it.

Rejected: to change ``sys.modules`` for a while, since other OS threads import meanwhile, and functions import later.
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

from .events import Event
from .faces import Library, Row
from .kernel.originals import allocate_lock

__all__ = ["World"]

SHARED = ("dhaga", "greenlet", "tornado")
"""Packages that every world shares: with two copies of the scheduler nobody would wake anybody."""


class World:
    """Modules that import each other, apart from those in ``sys.modules``. As a context manager: ``with`` its imports.

    In the ``with`` block the caller's imports of the named packages are the world's. It can be entered again.
    """

    def __init__(self, table: Iterable[Row], names: Sequence[str], shared: Sequence[str] = ()) -> None:
        if not names or not all(isinstance(name, str) and name for name in names):
            raise TypeError('name the packages to import: patched_imports("pymysql", "boto3")')
        self.names = tuple(names)
        self.shared = (*SHARED, *shared)
        self.tops = frozenset(name.partition(".")[0] for name in names)
        self.builtins = {**vars(builtins), "__import__": self.import_}
        self.meta_path: list[Any] = list(sys.meta_path)
        self.modules: dict[str, ModuleType] = {}
        self.loads = Loads()
        self.whole: dict[str, bool] = {}  # packages that are shared as they bring compiled modules
        self.stdlib = Library(table, self)
        self.modules.update(sys=self.stdlib.face_of("sys"), builtins=builtins)

    def __repr__(self) -> str:
        private = [name for name, module in self.modules.items() if sys.modules.get(name) is not module]
        return f"<World of {', '.join(self.names)}, {len(private)} modules of its own>"

    def __enter__(self) -> Self:
        hook.push(self)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        hook.pop()

    # ---- what import statements call

    def import_(
        self, name: str, globals: Any = None, locals: Any = None, fromlist: Any = (), level: int = 0
    ) -> ModuleType:
        """Import within the world. Source: ``builtins.__import__``."""
        absolute = resolve_name("." * level + name, package_of(globals or {})) if level else name
        module = self.load(absolute)
        if fromlist:
            if hasattr(module, "__path__"):
                self.load_attributes(module, fromlist)
            return module
        if type(fromlist) is list:  # by PyImport_Import, which then looks into the public sys.modules (import.c)
            with hook.aside(), contextlib.suppress(ImportError):
                importlib.import_module(absolute)
        below = name.partition(".")[2]
        return self.load(absolute[: -len(below) - 1]) if below else module

    def import_module(self, name: str, package: str | None = None) -> ModuleType:
        """Import within the world, inside its ``with`` block or not. Source: ``importlib.import_module``."""
        return self.load(resolve_name(name, package) if name.startswith(".") else name)

    def load_attributes(self, package: ModuleType, names: Iterable[str]) -> None:
        """Import the modules of a package that ``from package import …`` names."""
        for name in names:
            if name == "*":
                self.load_attributes(package, [n for n in getattr(package, "__all__", ()) if n != "*"])
            elif not hasattr(package, name):
                child = f"{package.__name__}.{name}"
                try:
                    self.load(child)
                except ModuleNotFoundError as error:
                    if error.name != child:
                        raise

    def reload(self, module: ModuleType) -> ModuleType:
        """Run a module of the world again. Source: ``importlib.reload``."""
        name = module.__spec__.name if module.__spec__ else module.__name__
        if self.modules.get(name) is not module:
            raise ImportError(f"module {name} not in sys.modules", name=name)
        if sys.modules.get(name) is module:
            return importlib.reload(module)
        if module.__spec__ and module.__spec__.loader:
            module.__spec__.loader.exec_module(module)
        return self.modules[name]

    # ---- how a module comes in

    def load(self, name: str) -> ModuleType:
        """Return a module of the world. Parks: while another loads it (``event.wait``)."""
        module = self.modules.get(name)
        if module is None or name in self.loads:
            if module is None and name in self.modules:
                raise ModuleNotFoundError(f"import of {name} halted; None in sys.modules", name=name)
            self.load_first(name)
            module = self.modules[name]
        return module

    def load_first(self, name: str) -> None:
        parent, _, tail = name.rpartition(".")
        package = self.load(parent) if parent else None
        with self.loads.of(name) as mine:
            if not mine or name in self.modules:
                return
            if package is not None and not hasattr(package, "__path__") and name not in sys.modules:
                raise ModuleNotFoundError(f"No module named {name!r}; {parent!r} is not a package", name=name)
            with hook.aside():
                module = self.make(name, getattr(package, "__path__", None))
            if package is not None and not self.shares(parent):
                setattr(package, tail, module)

    def make(self, name: str, path: Any) -> ModuleType:
        """Share a module, face it, or run a copy of it."""
        if self.shares(name):
            self.modules[name] = importlib.import_module(name)
        elif name in self.stdlib.makers:
            self.modules[name] = self.stdlib.face_of(name)
        else:
            self.run(self.spec_of(name, path))
        return self.modules[name]

    def shares(self, name: str) -> bool:
        """Tell whether a module is the public one."""
        if within(name, self.names):
            return False
        if self.stdlib.has(name):
            return self.stdlib.shares(name)
        return within(name, self.shared) or self.is_compiled(name.partition(".")[0])

    def is_compiled(self, top: str) -> bool:
        """Tell whether a package that is not named brings compiled modules: these import each other publicly."""
        if top not in self.whole:
            spec = None if top in self.tops else self.find(top, None)
            self.whole[top] = spec is not None and brings_extensions(spec)
        return self.whole[top]

    def spec_of(self, name: str, path: Any) -> ModuleSpec:
        spec = self.find(name, path)
        if spec is None:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return source_of(spec)

    def find(self, name: str, path: Any) -> ModuleSpec | None:
        for finder in list(self.meta_path):
            try:
                spec: ModuleSpec | None = finder.find_spec(name, path)
            except KeyError:  # a namespace in a namespace: its path looks for its parent among the public modules
                spec = namespace_of(name, path)
            if spec is not None:
                return spec
        return None

    def run(self, spec: ModuleSpec) -> None:
        """Run a module. If that fails, neither it nor what it contains is left."""
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
            with self.seen_by_its_package(module):
                if spec.loader is not None:
                    spec.loader.exec_module(module)
        except BaseException:
            for key in [key for key in self.modules if within(key, (name,))]:
                del self.modules[key]
            raise
        finally:
            if isinstance(spec.loader, ExtensionFileLoader):
                sys.modules.pop(name, None)

    @contextlib.contextmanager
    def seen_by_its_package(self, module: ModuleType) -> Iterator[None]:
        """Have a module be an attribute of its package while it runs.

        ``from . import x`` in a circle looks for an ``x`` that is not yet there in ``sys.modules``, which is not ours.
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
    """Return the package from which a module's relative imports count."""
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
    """Return the spec of the source beside a compiled module, if there is any: compiled code imports publicly."""
    if isinstance(spec.loader, ExtensionFileLoader) and spec.origin:
        source = os.path.join(os.path.dirname(spec.origin), f"{spec.name.rpartition('.')[2]}.py")
        if os.path.exists(source):
            return spec_from_file_location(spec.name, source) or spec
    return spec


def brings_extensions(spec: ModuleSpec) -> bool:
    """Tell whether a package, or a package in it, contains a compiled module."""
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


class Loads:
    """Who loads which module now. Of loads that wait for each other one gets the other's half-loaded module."""

    def __init__(self) -> None:
        self.lock = allocate_lock()
        self.running: dict[str, tuple[greenlet, Event]] = {}
        self.waiting: dict[greenlet, str] = {}

    def __contains__(self, name: str) -> bool:
        return name in self.running

    @contextlib.contextmanager
    def of(self, name: str) -> Iterator[bool]:
        """Tell whether the caller is to load a module. Parks: while another loads it (``event.wait``)."""
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
        """Return the event that the caller must set when it has loaded the module; None if it is in a circle."""
        me = getcurrent()
        while True:
            with self.lock:
                if name not in self.running:
                    self.running[name] = me, Event()
                    return self.running[name][1]
                if self.is_circle(name, me):
                    return None
                self.waiting[me] = name
                done = self.running[name][1]
            try:
                done.wait()
            finally:
                del self.waiting[me]

    def is_circle(self, name: str, me: greenlet) -> bool:
        owner = self.running[name][0]
        while owner is not me and self.waiting.get(owner) in self.running:
            owner = self.running[self.waiting[owner]][0]
        return owner is me


class Hook:
    """The ``builtins.__import__`` of those who are in a ``with`` block of a world; to others it is the former one."""

    def __init__(self) -> None:
        self.lock = allocate_lock()
        self.former: Callable[..., ModuleType] = builtins.__import__
        self.installed: Callable[..., ModuleType] = self.import_
        self.blocks: dict[greenlet, list[World | None]] = {}  # None: on the way through what is imported

    def push(self, world: World) -> None:
        with self.lock:
            self.blocks.setdefault(getcurrent(), []).append(world)
            if builtins.__import__ is not self.installed:
                self.former, builtins.__import__ = builtins.__import__, self.installed

    def pop(self) -> None:
        with self.lock:
            me = getcurrent()
            if me not in self.blocks:
                raise RuntimeError("leave the block of patched_imports() in the dhaga or thread that has entered it")
            self.blocks[me].pop()
            if not self.blocks[me]:
                del self.blocks[me]
            if not self.blocks and builtins.__import__ is self.installed:
                builtins.__import__ = self.former

    def import_(
        self, name: str, globals: Any = None, locals: Any = None, fromlist: Any = (), level: int = 0
    ) -> ModuleType:
        """Import from the innermost world of the caller's that names the package, or else publicly."""
        blocks = self.blocks.get(getcurrent())
        if not blocks:
            return self.former(name, globals, locals, fromlist, level)
        absolute = resolve_name("." * level + name, package_of(globals or {})) if level else name
        importer = self.importer(blocks, absolute.partition(".")[0])
        with self.aside():
            return importer(name, globals, locals, fromlist, level)

    def importer(self, blocks: list[World | None], top: str) -> Callable[..., ModuleType]:
        for world in reversed(blocks):
            if world is None:
                break
            if top in world.tops:
                return world.import_
        return self.former

    @contextlib.contextmanager
    def aside(self) -> Iterator[None]:
        """Have what the caller imports now import as if there were no block."""
        blocks = self.blocks.get(getcurrent())
        if blocks is None:
            yield
            return
        blocks.append(None)
        try:
            yield
        finally:
            blocks.pop()


hook = Hook()
