"""Modules written for a test, which it imports into worlds of their own: see ``dhaga.monkey._private_imports``."""

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
    """Give a function that writes modules, by path or name, where they can be imported.

    In the end those that were imported publicly are forgotten, and nobody has left a hook.
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
    """Import a module into a world of its own, of these packages or of its own."""
    return patched_imports(*names or [module]).import_module(module)
