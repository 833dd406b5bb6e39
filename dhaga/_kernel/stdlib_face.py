"""Shared by faces of standard modules: access to names that they do not define, and objects that cannot be copied."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any, NoReturn


def fall_back_to(standard: ModuleType, face: dict[str, Any]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return ``__getattr__`` and ``__dir__`` (PEP 562) of a face: all other names are the standard module's own.

    ``face``: the ``globals()`` of the face. Names are looked up at each access, so that a patch of the standard module
    shows through the face.
    """

    def __getattr__(name: str) -> Any:
        return getattr(standard, name)

    def __dir__() -> list[str]:
        return sorted({*face, *dir(standard)})

    return __getattr__, __dir__


def refuse_copy(self: object, *_: object) -> NoReturn:
    """Refuse copying and pickling, like the standard's object; for ``__getstate__``, which a subclass may define."""
    raise TypeError(f"cannot pickle {type(self).__name__!r} object")
