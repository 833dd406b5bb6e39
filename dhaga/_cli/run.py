"""``python -m dhaga SCRIPT``: run an unchanged program as the interpreter would, with its threads as dhagas.

The patch is applied before the program's first line. The program is ``__main__``, with the ``sys.argv`` and
``sys.path`` that the interpreter would give it. A process that ``multiprocessing`` forks from it is also patched; a
spawned one imports the script anew, without the patch.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec, SourceFileLoader, SourcelessFileLoader
from importlib.util import find_spec
from pkgutil import get_importer
from types import CodeType, ModuleType, TracebackType
from typing import Any, NamedTuple

from .. import compat, monkey
from .._kernel.run.call_outs import calls_out
from ..monkey import _early

HAS_CACHED = sys.version_info < (3, 15)
"""Whether modules have a ``__cached__``."""


class NoProgram(Exception):
    """The program was not found. Text and exit status are the ones that the interpreter has for this."""

    def __init__(self, text: str, status: int = 2) -> None:
        super().__init__(text)
        self.status = status


class Program(NamedTuple):
    """A program to run: its code, the names of its ``__main__``, and the first items of ``sys.argv`` and ``sys.path``.

    ``path``: None if ``sys.path`` stays unchanged.
    """

    code: CodeType
    names: dict[str, Any]
    argv: str
    path: str | None = None


class Options(NamedTuple):
    """Options of the command line for the patch.

    ``imitated``: packages that ``compat`` provides to the program; ``cooperative``: without preemption;
    ``real_threads``: modules whose threads stay OS threads.
    """

    imitated: Sequence[str] = ()
    cooperative: bool = False
    real_threads: Sequence[str] = ()


# ---- finding the program


def program_from_text(source: str, name: str, argv: str) -> Program:
    """Return a source text as a program (``-c``, stdin)."""
    return Program(compile(source, name, "exec", dont_inherit=True), {}, argv, "")


def program_from_module(name: str) -> Program:
    """Return a module as a program, or a package's ``__main__`` (``-m``)."""
    spec = find_module_spec(name)
    if spec is not None and spec.submodule_search_locations is not None:
        name = f"{name}.__main__"
        spec = find_module_spec(name)
    if spec is None:
        raise NoProgram(f"No module named {name}", 1)
    return program_from_spec(spec, str(spec.origin))


def find_module_spec(name: str) -> ModuleSpec | None:
    try:
        return find_spec(name)
    except ModuleNotFoundError as error:
        if error.name and (name == error.name or name.startswith(f"{error.name}.")):  # it, or a parent
            return None
        raise
    except ValueError:  # such as __main__, which has no spec
        return None


def program_from_spec(spec: ModuleSpec, argv: str, path: str | None = None) -> Program:
    """Return the program that the spec's loader finds. Raises: NoProgram."""
    code = spec.loader.get_code(spec.name)  # type: ignore[union-attr]
    if code is None:
        raise NoProgram(f"No code object available for {spec.name}", 1)
    names = {"__spec__": spec, "__loader__": spec.loader, "__package__": spec.parent}
    if spec.has_location:
        names |= {"__file__": spec.origin}
        if HAS_CACHED:
            names |= {"__cached__": spec.cached}
    return Program(code, names, argv, path)


def program_from_file(path: str) -> Program:
    """Return a file as a program, or the ``__main__.py`` of a folder or an archive. Raises: NoProgram."""
    full = os.path.join(os.getcwd(), path)
    importer = get_importer(full)
    if importer is not None:
        spec = importer.find_spec("__main__")
        if spec is None:
            raise NoProgram(f"can't find '__main__' module in {path!r}", 1)
        return program_from_spec(spec, path, full)
    loader: Any = (SourcelessFileLoader if path.endswith(".pyc") else SourceFileLoader)("__main__", full)
    try:
        data = loader.get_data(full)
    except OSError as error:
        raise NoProgram(f"can't open file {full!r}: [Errno {error.errno}] {error.strerror}") from None
    compiled = path.endswith(".pyc")
    code = loader.get_code("__main__") if compiled else compile(data, full, "exec", dont_inherit=True)
    names = {"__file__": full, "__loader__": loader, **({"__cached__": None} if HAS_CACHED else {})}
    return Program(code, names, path, os.path.dirname(os.path.realpath(path)))


# ---- running it


@calls_out
def run(find: Callable[[], Program], arguments: list[str], options: Options) -> None:
    """Patch, then run the program that ``find`` returns, with these arguments.

    Raises: what the program raises, NoProgram.
    """
    previous = sys.modules["__main__"]  # kept alive: its functions are on our stack
    patch_first(cooperative=options.cooperative or bool(options.imitated), real_threads=options.real_threads)
    compat.install(*options.imitated)
    try:
        program = find()
        sys.argv[:] = [program.argv, *arguments]
        if program.path is not None and not sys.flags.safe_path:
            sys.path[0] = program.path
        exec(program.code, vars(new_main(program)))
    except (SystemExit, NoProgram):
        raise
    except BaseException as error:
        hide_runner_frames(error)
        raise
    finally:
        del previous


def patch_first(**options: Any) -> None:
    """Patch; restart the process with an early patch if an agent has come first. Raises: PatchError."""
    try:
        monkey.patch(**options)
    except monkey.PatchError:
        if not (_early.is_own_command() and _early.can_restart()):
            raise
        _early.restart(**options)


def new_main(program: Program) -> ModuleType:
    """Create the program's ``__main__`` module."""
    main = ModuleType("__main__")
    main.__dict__.update({"__builtins__": sys.modules["builtins"], **program.names})
    if sys.version_info < (3, 14):  # since 3.14 (PEP 649) only modules with annotations have ``__annotations__``
        main.__dict__.setdefault("__annotations__", {})
    sys.modules["__main__"] = main
    return main


def hide_runner_frames(error: BaseException) -> None:
    """Leave this runner's frames out of the traceback of an error that ends the program."""
    previous = sys.excepthook

    def hook(kind: type[BaseException], value: BaseException, trace: TracebackType | None) -> None:
        sys.excepthook = previous
        if value is error:
            trace = program_traceback(trace)
            value = value.with_traceback(trace)
        previous(kind, value, trace)

    sys.excepthook = hook


def program_traceback(trace: TracebackType | None) -> TracebackType | None:
    """Return the part of a traceback that begins in the program."""
    inside = False
    while trace is not None:
        here = trace.tb_frame.f_code.co_filename == __file__
        if inside and not here:
            return trace
        inside, trace = inside or here, trace.tb_next
    return None
