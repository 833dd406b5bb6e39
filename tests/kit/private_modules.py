"""Modules that a test writes and imports privately: see ``dhaga.monkey._private_imports``."""

from __future__ import annotations

import builtins
import contextlib
import importlib
import pathlib
import sys
import textwrap
from collections.abc import Callable, Iterator
from types import ModuleType

import pytest

from dhaga.monkey import patched_imports

Write = Callable[..., None]


@contextlib.contextmanager
def written(folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Write]:
    """Yield a function that writes importable modules, given by path or name.

    At the end, publicly imported modules ``try_…`` are removed. Raises: AssertionError if an import hook is left.
    """
    monkeypatch.syspath_prepend(folder)
    hook, modules = builtins.__import__, set(sys.modules)

    def write(files: dict[str, str] | None = None, /, **more: str) -> None:
        for path, text in ((files or {}) | more).items():
            place = folder / f"{path}.py"
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(textwrap.dedent(text))
        importlib.invalidate_caches()

    yield write
    assert builtins.__import__ is hook
    for name in set(sys.modules) - modules:
        if name.startswith("try_"):
            del sys.modules[name]


def private(module: str, *names: str) -> ModuleType:
    """Return a new private import of a module. ``names``: the private packages, by default only the module."""
    return patched_imports(*names or [module]).import_module(module)
