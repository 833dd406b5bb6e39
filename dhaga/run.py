"""``python -m dhaga SCRIPT``: run an unchanged program with its threads as dhagas, as the interpreter would run it.

It is patched before its first line, and is ``__main__``, with the argv and the path that it expects. A process that
``multiprocessing`` forks from it is patched, too; one that it spawns imports the script anew, without a patch.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from importlib.machinery import ModuleSpec, SourceFileLoader, SourcelessFileLoader
from importlib.util import find_spec
from pkgutil import get_importer
from types import CodeType, ModuleType, TracebackType
from typing import Any, NamedTuple

from . import monkey


class NoProgram(Exception):
    """There is no such program; the text and the status are what the interpreter would say of it."""

    def __init__(self, text: str, status: int = 2) -> None:
        super().__init__(text)
        self.status = status


class Program(NamedTuple):
    """What is to be run: its code, what it finds in ``__main__``, and the first of ``sys.argv`` and of ``sys.path``.

    ``path``: None where the path stays.
    """

    code: CodeType
    names: dict[str, Any]
    argv: str
    path: str | None = None


# ---- what to run


def text(source: str, name: str, argv: str) -> Program:
    """Return the program that a text is."""
    return Program(compile(source, name, "exec", dont_inherit=True), {}, argv, "")


def module(name: str) -> Program:
    """Return the program that a module is, or a package by its ``__main__``."""
    spec = found_spec(name)
    if spec is not None and spec.submodule_search_locations is not None:
        name = f"{name}.__main__"
        spec = found_spec(name)
    if spec is None:
        raise NoProgram(f"No module named {name}", 1)
    return of_spec(spec, str(spec.origin))


def found_spec(name: str) -> ModuleSpec | None:
    try:
        return find_spec(name)
    except ModuleNotFoundError as error:
        if error.name and (name == error.name or name.startswith(f"{error.name}.")):  # of a parent of it
            return None
        raise
    except ValueError:  # __main__ and the like
        return None


def of_spec(spec: ModuleSpec, argv: str, path: str | None = None) -> Program:
    """Return the program that a loader finds."""
    code = spec.loader.get_code(spec.name)  # type: ignore[union-attr]
    if code is None:
        raise NoProgram(f"No code object available for {spec.name}", 1)
    names = {"__spec__": spec, "__loader__": spec.loader, "__package__": spec.parent}
    if spec.has_location:
        names |= {"__file__": spec.origin, "__cached__": spec.cached}
    return Program(code, names, argv, path)


def file(path: str) -> Program:
    """Return the program that a file is, or a folder or an archive by its ``__main__.py``."""
    full = os.path.join(os.getcwd(), path)
    importer = get_importer(full)
    if importer is not None:
        spec = importer.find_spec("__main__")
        if spec is None:
            raise NoProgram(f"can't find '__main__' module in {path!r}", 1)
        return of_spec(spec, path, full)
    loader: Any = (SourcelessFileLoader if path.endswith(".pyc") else SourceFileLoader)("__main__", full)
    try:
        data = loader.get_data(full)
    except OSError as error:
        raise NoProgram(f"can't open file {full!r}: [Errno {error.errno}] {error.strerror}") from None
    compiled = path.endswith(".pyc")
    code = loader.get_code("__main__") if compiled else compile(data, full, "exec", dont_inherit=True)
    names = {"__file__": full, "__cached__": None, "__loader__": loader}
    return Program(code, names, path, os.path.dirname(os.path.realpath(path)))


# ---- running it


def run(find: Callable[[], Program], arguments: list[str]) -> None:
    """Patch, then run the program that is found, with these arguments. Returns and raises what it does; NoProgram."""
    former = sys.modules["__main__"]  # goes on to exist: its functions are below us
    monkey.patch()
    try:
        program = find()
        sys.argv[:] = [program.argv, *arguments]
        if program.path is not None and not sys.flags.safe_path:
            sys.path[0] = program.path
        exec(program.code, vars(new_main(program)))
    except (SystemExit, NoProgram):
        raise
    except BaseException as error:
        show_without_us(error)
        raise
    finally:
        del former


def new_main(program: Program) -> ModuleType:
    """Make the module that the program is."""
    main = ModuleType("__main__")
    main.__dict__.update({"__builtins__": sys.modules["builtins"], **program.names})
    main.__dict__.setdefault("__annotations__", {})
    sys.modules["__main__"] = main
    return main


def show_without_us(error: BaseException) -> None:
    """Have the error that ends the program be shown as if nobody had called the program."""
    former = sys.excepthook

    def hook(kind: type[BaseException], value: BaseException, trace: TracebackType | None) -> None:
        sys.excepthook = former
        if value is error:
            trace = of_the_program(trace)
            value = value.with_traceback(trace)
        former(kind, value, trace)

    sys.excepthook = hook


def of_the_program(trace: TracebackType | None) -> TracebackType | None:
    """Return the part of a traceback that begins in the program."""
    begun = False
    while trace is not None:
        here = trace.tb_frame.f_code.co_filename == __file__
        if begun and not here:
            return trace
        begun, trace = begun or here, trace.tb_next
    return None
