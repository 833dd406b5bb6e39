"""Helpers for modules with the API of a standard module (*faces*): missing names, C functions, refusal of copies."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from types import BuiltinFunctionType, ModuleType
from typing import Any, NoReturn, Self, TypeVar, cast

from ..platform.system import system

F = TypeVar("F", bound=Callable[..., Any])


def fall_back_to(standard: ModuleType, face: dict[str, Any]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return ``__getattr__`` and ``__dir__`` (PEP 562) for a face. These functions supply the standard module's names
    that the face lacks.

    ``face``: the ``globals()`` of the face. Each access looks the name up, so that a patch of the standard module has
    an effect on the face.
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
    """Remove public names from a face, so that an access finds the standard module's name, or gives a hint."""
    for name in names:
        face["__all__"].remove(name)
        del face[name]


def refuse_copy(self: object, *_: object) -> NoReturn:
    """Raise TypeError: like its counterpart in the standard library, the object cannot be copied or pickled."""
    raise TypeError(f"cannot pickle {type(self).__name__!r} object")


class BuiltinFunction(staticmethod):  # type: ignore[type-arg]  # not subscriptable before Python 3.14
    """A Python function that behaves like a C function: as a class attribute it does not become a method.

    ``inspect`` and ``typing`` read the Python function from ``__wrapped__``. A call takes 13 ns more than a plain call,
    and a park during the call takes 1 KB more of stack. So ``time.sleep``, in which most programs park, is compiled.
    Rejected: a class with ``__call__`` (57 ns more), or one class for each function (18 ns more).
    """

    def __get__(self, instance: Any, owner: type | None = None, /) -> Self:
        return self  # not the plain function, because pickle finds this object under the name

    def __repr__(self) -> str:
        return f"<function {self.__name__} of {self.__module__}>"

    def __reduce__(self) -> str:
        return self.__qualname__


def builtin_function(function: F) -> F:
    """Return a function that replaces a C function of the standard library. A decorator.

    A compiled function is returned unchanged, because C functions are not descriptors.
    """
    return function if isinstance(function, BuiltinFunctionType) else cast(F, BuiltinFunction(function))
