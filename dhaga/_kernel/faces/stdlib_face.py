"""Shared by faces of standard modules: names they lack, functions that stand for C functions, objects not to copy."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from types import BuiltinFunctionType, ModuleType
from typing import Any, NoReturn, Self, TypeVar, cast

from ..platform.system import system

F = TypeVar("F", bound=Callable[..., Any])


def fall_back_to(standard: ModuleType, face: dict[str, Any]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return ``__getattr__`` and ``__dir__`` (PEP 562) of a face: all other names are the standard module's own.

    ``face``: the ``globals()`` of the face. Names are looked up at each access, so that a patch of the standard module
    shows through the face.
    """

    def __getattr__(name: str) -> Any:
        try:
            return getattr(standard, name)
        except AttributeError:
            module = standard.__name__
            if f"{module}.{name}" not in system.INSTEAD:
                raise
            instead = system.INSTEAD[f"{module}.{name}"]
            raise AttributeError(f"{module}.{name} does not exist on this platform: {instead}", name=name) from None

    def __dir__() -> list[str]:
        return sorted({*face, *dir(standard)})

    return __getattr__, __dir__


def remove_names(face: dict[str, Any], names: Iterable[str]) -> None:
    """Remove public names from a face, so that the standard module's own are used, or a hint says what to use."""
    for name in names:
        face["__all__"].remove(name)
        del face[name]


def refuse_copy(self: object, *_: object) -> NoReturn:
    """Refuse copying and pickling, like the standard's object; for ``__getstate__``, which a subclass may define."""
    raise TypeError(f"cannot pickle {type(self).__name__!r} object")


class BuiltinFunction(staticmethod):  # type: ignore[type-arg]  # not subscriptable before Python 3.14
    """A Python function with the behaviour of a C function: kept in a class, it does not become a method.

    ``inspect`` and ``typing`` read the Python function, its ``__wrapped__``. A call costs 13 ns more, and a park in it
    1 KB of stack; so ``time.sleep``, in which most programs park, is compiled.
    Rejected: a class with ``__call__`` (57 ns), or one class for each function (18 ns).
    """

    def __get__(self, instance: Any, owner: type | None = None, /) -> Self:
        return self  # and not the function: pickle finds this object by the name

    def __repr__(self) -> str:
        return f"<function {self.__name__} of {self.__module__}>"

    def __reduce__(self) -> str:
        return self.__qualname__


def builtin_function(function: F) -> F:
    """Return a function that stands for a C function of the standard library. For decorating.

    A compiled one needs no more: C functions are no descriptors.
    """
    return function if isinstance(function, BuiltinFunctionType) else cast(F, BuiltinFunction(function))
