"""The compiled functions: Python functions that have a twin in C, and how the twin replaces them.

A function tagged ``@compiled`` is the source of truth: you read, type, document and step through it. Where
``_fast_paths.c`` was built, its compiled twin replaces it in the class or module; the twin does the common case and
calls the tagged function in every other one. ``fast_paths/compiled_functions.h`` lists all of them; ``python_twin``
returns the Python function of either mode. ``DHAGA_FAST_PATHS=0`` and ``DHAGA_PURE=1`` leave the Python functions where
they are.

The common case: a dhaga calls, with nothing pending, and no hook, trace function or asyncio loop takes part. The object
is of our class, with the usual types in its slots, and its compiled methods are not replaced. Arguments are positional,
and a timeout is None or above 0. A comment beside a tag, ``# C: …``, says what C assumes beyond that.

A class whose slots the fast paths read, and which has no compiled method of its own, is tagged ``@known_layout``.
Rejected: types in C as bases of our classes. Their members are as quick for Python as slots, but greenlet's type can
only be subclassed in Python, and each class would list its attributes twice.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from types import ModuleType
from typing import Any, TypeVar, cast

from .accelerator import fast_paths

F = TypeVar("F", bound=Callable[..., Any])
C = TypeVar("C", bound=type[Any])


python_functions: dict[object, Callable[..., Any]] = {}
"""The Python function of each compiled twin."""


class Compiled:
    """Placeholder in a class body; once the class exists, the compiled method replaces it."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function

    def __set_name__(self, owner: type, name: str) -> None:
        setattr(owner, name, compiled_twin(owner, self.function))


def compiled(function: F) -> F:
    """Replace a function or method by its compiled twin, where there is one. For decorating."""
    if not isinstance(fast_paths, ModuleType):
        return function
    if "." in function.__qualname__:
        return cast(F, Compiled(function))
    return cast(F, compiled_twin(function.__module__, function))


def compiled_twin(owner: type | str, function: Callable[..., Any]) -> Callable[..., Any]:
    assert isinstance(fast_paths, ModuleType)
    twin: Callable[..., Any] = fast_paths.twin(owner, function.__name__, function, documentation(function))
    python_functions[twin] = function
    return twin


def documentation(function: Callable[..., Any]) -> str:
    """Return signature and docstring in the form that ``help()`` and ``inspect`` read from a compiled function."""
    parameters = inspect.signature(function).parameters.values()
    plain = str(inspect.Signature([each.replace(annotation=each.empty) for each in parameters]))
    return f"{function.__name__}{plain.replace('(self', '($self', 1)}\n--\n\n{function.__doc__ or ''}"


def known_layout(cls: C) -> C:
    """Allow the fast paths to read the slots of a class. For decorating."""
    if isinstance(fast_paths, ModuleType):
        fast_paths.layout(cls)
    return cls


def python_twin(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the Python twin of a compiled function; any other function is returned unchanged."""
    return python_functions.get(function, function)


def freeze() -> None:
    """Make the compiled functions call their Python twins from now on. From: interpreter exit, in its last moments."""
    if isinstance(fast_paths, ModuleType):
        fast_paths.freeze()
