"""``contextmanager``, as in ``contextlib``, for blocks with users' code, or with a park, where any error may be raised.

The standard one sets ``__traceback__`` of the error that leaves the block. An exception that is a frozen dataclass
refuses that, and the caller gets a FrozenInstanceError instead.
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
    """A context manager over a generator with one ``yield``; also a decorator, with a new generator for each call."""

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
    """Make a context manager from a generator function. Source: ``contextlib``, but errors keep their attributes."""

    @wraps(function)
    def make(*args: P.args, **options: P.kwargs) -> GeneratorContext[T]:
        return GeneratorContext(function, args, options)

    return make
