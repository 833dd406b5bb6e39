"""Decorators that replace Python functions with their compiled twins, which are written in C.

A Python function tagged ``@compiled`` is the source of truth. Its compiled twin has the same behavior, signature and
docstring. If ``_fast_paths.c`` was built, the twin replaces the function in its class or module. The twin handles the
common case, and calls the tagged function in all other cases. ``fast_paths/compiled_functions.h`` lists the compiled
functions; ``python_twin`` returns the Python function even if it was replaced. ``DHAGA_FAST_PATHS=0`` and
``DHAGA_PURE=1`` keep the Python functions in place. So does C code that does not fit this source.

In the common case the caller is a dhaga without pending errors, and no hook, trace function or asyncio loop is in use.
A method's object is an instance of a class of Dhaga, with the usual types in its slots. No compiled method was
overridden or replaced. Arguments are positional, and a timeout is None or above 0. A comment beside a tag (``# in C
only …``) names further assumptions of the C code.

A class whose slots the fast paths read, and which has no compiled method of its own, is tagged ``@known_layout``.
Rejected: base classes that are C types. Python reads members of C types no faster than slots. Greenlet's type can only
be subclassed in Python, and each class would list its attributes twice, in C and in Python.
"""

from __future__ import annotations

import inspect
import sys
import warnings
from collections.abc import Callable
from types import ModuleType
from typing import Any, TypeVar, cast

from . import accelerator

F = TypeVar("F", bound=Callable[..., Any])
C = TypeVar("C", bound=type[Any])


python_functions: dict[object, Callable[..., Any]] = {}
"""The Python function of each compiled twin."""


class Compiled:
    """Placeholder for a compiled method in a class body. When the class is created, the compiled method replaces the
    placeholder.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function

    def __set_name__(self, owner: type, name: str) -> None:
        setattr(owner, name, compiled_twin(owner, self.function))


def compiled(function: F) -> F:
    """Replace a function or method with its compiled twin, if the fast paths run. A decorator."""
    if not isinstance(accelerator.fast_paths, ModuleType):
        return function
    if "." in function.__qualname__:
        return cast(F, Compiled(function))
    return cast(F, compiled_twin(function.__module__, function))


def compiled_twin(owner: type | str, function: Callable[..., Any]) -> Callable[..., Any]:
    # If an earlier method of the same class has no twin, use_python() has turned the fast paths off.
    if not isinstance(accelerator.fast_paths, ModuleType):
        return function
    try:
        twin = accelerator.fast_paths.twin(owner, function.__name__, function, documentation(function))
    except Exception as error:
        use_python(error)
        return function
    python_functions[twin] = function
    return twin  # type: ignore[no-any-return]


def use_python(error: Exception) -> None:
    """Put the Python functions back, because the fast paths do not fit: a twin may call a missing twin."""
    freeze()
    accelerator.fast_paths = f"not usable: {error}"
    back = {id(twin): function for twin, function in python_functions.items()}
    owners = {getattr(twin, "__objclass__", None) or sys.modules[twin.__module__] for twin in python_functions}
    for owner in owners:
        for name, value in list(vars(owner).items()):
            if id(value) in back:
                setattr(owner, name, back[id(value)])
    python_functions.clear()
    warnings.warn(
        f"dhaga runs in pure Python, because its compiled part does not fit: {error}; install dhaga again",
        RuntimeWarning,
        stacklevel=2,
    )


def documentation(function: Callable[..., Any]) -> str:
    """Return the signature and docstring of a function in the form that ``inspect`` reads from C functions."""
    parameters = inspect.signature(function).parameters.values()
    plain = str(inspect.Signature([each.replace(annotation=each.empty) for each in parameters]))
    return f"{function.__name__}{plain.replace('(self', '($self', 1)}\n--\n\n{function.__doc__ or ''}"


def known_layout(cls: C) -> C:
    """Allow the fast paths to read the slots of a class. A decorator."""
    if isinstance(accelerator.fast_paths, ModuleType):
        try:
            accelerator.fast_paths.layout(cls)
        except Exception as error:
            use_python(error)
    return cls


def python_twin(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the Python function of a compiled twin; return any other function unchanged."""
    return python_functions.get(function, function)


def freeze() -> None:
    """Make the compiled functions call their Python twins from now on. From: the last step of interpreter exit."""
    if isinstance(accelerator.fast_paths, ModuleType):
        accelerator.fast_paths.freeze()
