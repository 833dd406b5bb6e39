"""``python -m dhaga SCRIPT``: runs an unchanged program like the interpreter does, but its threads are dhagas.

The patch is applied before the program's first line. The program runs as ``__main__``, with the ``sys.argv`` and
``sys.path`` that the interpreter would set. A process that ``multiprocessing`` forks from the program is also patched.
A process that ``multiprocessing`` spawns imports the script again, without the patch.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec, SourceFileLoader, SourcelessFileLoader
from importlib.util import find_spec
from pkgutil import get_importer
from textwrap import dedent
from types import CodeType, ModuleType, TracebackType
from typing import Any, NamedTuple

from .. import compat, monkey
from .._kernel.run.call_outs import calls_out
from ..monkey import _early

HAS_CACHED = sys.version_info < (3, 15)
"""Whether modules have the attribute ``__cached__``."""


class NoProgram(Exception):
    """Raised if the program is not found. Text and exit status are the same as the interpreter's."""

    def __init__(self, text: str, status: int = 2) -> None:
        super().__init__(text)
        self.status = status


class Program(NamedTuple):
    """A program to run: its code, initial names of ``__main__``, and the first items of ``sys.argv`` and ``sys.path``.

    ``path`` is None if ``sys.path`` is not changed.
    """

    code: CodeType
    names: dict[str, Any]
    argv: str
    path: str | None = None


class Options(NamedTuple):
    """Command-line options of the patch.

    ``imitated``: packages that ``compat`` provides to the program. ``cooperative``: whether preemption is off.
    ``real_threads``: modules whose threads remain OS threads.
    """

    imitated: Sequence[str] = ()
    cooperative: bool = False
    real_threads: Sequence[str] = ()


# ---- finding the program


def program_from_text(source: str) -> Program:
    """Return the text of ``-c`` as a program. Since 3.14, the interpreter ignores a common indent of its lines."""
    text = dedent(source) if sys.version_info >= (3, 14) else source
    return Program(compile(text, "<string>", "exec", dont_inherit=True), {}, "-c", "")


def program_from_stdin() -> Program:
    """Return the text of standard input as a program."""
    return Program(compile(sys.stdin.read(), "<stdin>", "exec", dont_inherit=True), {}, "-", "")


def program_from_module(name: str) -> Program:
    """Return a module, or a package's ``__main__``, as a program (``-m``)."""
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
        if error.name and (name == error.name or name.startswith(f"{error.name}.")):
            return None  # the module or one of its parents is missing
        raise
    except ValueError:  # a module without a spec, such as __main__
        return None


def program_from_spec(spec: ModuleSpec, argv: str, path: str | None = None) -> Program:
    """Return the program that the spec's loader loads. Raises: NoProgram."""
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
    """Return a file, or the ``__main__.py`` of a folder or an archive, as a program. Raises: NoProgram."""
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


# ---- running the program


@calls_out
def run(find: Callable[[], Program], arguments: list[str], options: Options) -> None:
    """Apply the patch, then run the program that ``find`` returns, with these arguments.

    Raises: errors of the program, NoProgram.
    """
    previous = sys.modules["__main__"]  # kept alive, because functions of that module are still running
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
        if isinstance(error, ModuleNotFoundError) and error.name in compat.NAMES and error.name not in options.imitated:
            error.add_note(f"python -m dhaga --as {error.name} … provides Dhaga's own {error.name}")
        hide_runner_frames(error)
        raise
    finally:
        del previous


def patch_first(**options: Any) -> None:
    """Patch the standard library. If earlier code prevents the patch, restart the process and patch before that code.
    Raises: PatchError.
    """
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
    if sys.version_info < (3, 14):  # since 3.14 (PEP 649), only modules with annotations have ``__annotations__``
        main.__dict__.setdefault("__annotations__", {})
    sys.modules["__main__"] = main
    return main


def hide_runner_frames(error: BaseException) -> None:
    """Hide this module's frames in the traceback of an error that ends the program."""
    previous = sys.excepthook

    def hook(kind: type[BaseException], value: BaseException, trace: TracebackType | None) -> None:
        sys.excepthook = previous
        if value is error:
            trace = program_traceback(trace)
            value = value.with_traceback(trace)
        previous(kind, value, trace)

    sys.excepthook = hook


def program_traceback(trace: TracebackType | None) -> TracebackType | None:
    """Return a traceback from the program's first frame on; None if no frame belongs to the program."""
    inside = False
    while trace is not None:
        here = trace.tb_frame.f_code.co_filename == __file__
        if inside and not here:
            return trace
        inside, trace = inside or here, trace.tb_next
    return None
