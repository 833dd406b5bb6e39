"""A variant of ``contextlib.contextmanager`` for blocks that may raise any error: blocks that park or run users' code.

The standard decorator sets ``__traceback__`` of an error that leaves the block. If the exception is a frozen dataclass,
the assignment fails, and the caller gets a FrozenInstanceError instead of that exception.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ContextDecorator
from functools import wraps
from types import TracebackType
from typing import Any, Generic, ParamSpec, TypeVar

from .faces.foreign_names import refuse_async_with

__all__ = ["contextmanager"]

P = ParamSpec("P")
T = TypeVar("T")


@refuse_async_with()
class GeneratorContext(ContextDecorator, Generic[T]):
    """A context manager that runs a generator with one ``yield``. As a decorator, it makes a new generator for each
    call.
    """

    def __init__(self, function: Callable[..., Any], args: tuple[Any, ...], options: dict[str, Any]) -> None:
        self.call = function, args, options
        self.generator: Any = function(*args, **options)

    @property
    def shown_name(self) -> str:
        """The name of the generator function, for errors."""
        return str(self.generator.__name__)

    def _recreate_cm(self) -> GeneratorContext[T]:
        return type(self)(*self.call)

    def __enter__(self) -> T:
        del self.call
        return next(self.generator)  # type: ignore[no-any-return]

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        if error is None:
            for _ in self.generator:
                raise RuntimeError("generator didn't stop")
            return False
        try:
            self.generator.throw(error)
        except BaseException as raised:
            if raised is error or (isinstance(error, StopIteration) and raised.__cause__ is error):  # PEP 479
                BaseException.with_traceback(error, trace)  # without the generator's frames
                return False
            if isinstance(raised, StopIteration):  # the generator has ended: the block's error is handled
                return True
            raise
        raise RuntimeError("generator didn't stop after throw()")


def contextmanager(function: Callable[P, Iterator[T]]) -> Callable[P, GeneratorContext[T]]:
    """Make a context manager from a generator function.

    Source: ``contextlib``; the difference is that no attribute of an error is assigned.
    """

    @wraps(function)
    def make(*args: P.args, **options: P.kwargs) -> GeneratorContext[T]:
        return GeneratorContext(function, args, options)

    return make
