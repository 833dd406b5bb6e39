"""Resolves lazy imports (Python 3.15, PEP 810) in Dhaga's modules before the patch replaces standard names.

With ``-X lazy_imports=all``, each module-level import is delayed to the first use of its name. The first use of a name
of Dhaga may be in the middle of the patch. The import system then acquires locks. These are already Dhaga's locks,
whose code may need the same name.
"""

from __future__ import annotations

import sys
import types
from typing import Any

from ._rebind import package_of

__all__ = ["resolve_lazy_imports"]

LAZY: Any = getattr(types, "LazyImportType", None)
"""The type of the placeholder that a lazily imported name has until its first use; None up to Python 3.14."""

OURS = package_of(__name__)


def resolve_lazy_imports() -> None:
    """Resolve the lazy imports in Dhaga's modules and in the modules that this call imports. Raises: ImportError."""
    if LAZY is None:
        return
    mode = sys.get_lazy_imports()  # type: ignore[attr-defined]
    sys.set_lazy_imports("normal")  # type: ignore[attr-defined]
    try:
        while lazy := lazy_names():
            for module, name in lazy:
                getattr(module, name)
    finally:
        sys.set_lazy_imports(mode)  # type: ignore[attr-defined]


def lazy_names() -> list[tuple[types.ModuleType, str]]:
    """Return the unresolved lazy imports in Dhaga's modules, as modules and names."""
    return [
        (module, name)
        for key, module in list(sys.modules.items())
        if package_of(key) == OURS
        for name, value in list(vars(module).items())
        if type(value) is LAZY
    ]
