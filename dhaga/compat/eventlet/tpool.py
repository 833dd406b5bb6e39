"""``eventlet.tpool``: blocking calls in OS threads while the calling greenthread is parked."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextvars import Context
from typing import Any

from ..._kernel.run.uncaught import call_excepthook
from ..._workers.offload import OffloadPool
from . import _settings

__all__ = ["Proxy", "execute", "killall", "set_num_threads"]


_nthreads = int(os.environ.get("EVENTLET_THREADPOOL_SIZE", 20))
"""Maximum number of threads; with 0, calls run in the calling thread."""

_pool: OffloadPool | None = None
"""The pool of ``execute``, created by its first call."""


def setup() -> None:
    """Create the pool unless it exists; ``execute`` also does this."""
    global _pool
    if _pool is None and _nthreads:
        _pool = OffloadPool("eventlet.tpool", _nthreads)


def set_num_threads(nthreads: int) -> None:
    """Set the maximum size of later pools. With 0, no pool is created, and calls run in the calling thread."""
    global _nthreads
    _nthreads = nthreads


def killall() -> None:
    """End the threads. Parks: until their calls have returned. A later ``execute`` starts new threads."""
    global _pool
    pool, _pool = _pool, None
    if pool is not None:
        pool.shutdown()


def execute(meth: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call a function in an OS thread, and return its result or raise its error. Parks: until the call returns."""
    setup()
    if _pool is None:
        return meth(*args, **kwargs)
    try:
        return _pool.offload(call, meth, args, kwargs)
    except Exception as error:
        if _settings.tpool_exceptions:
            call_excepthook(None, error)
        raise


def call(meth: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """Call a function with an empty context. If it returns a generator, the caller or a Proxy runs the generator."""
    return Context().run(meth, *args, **kwargs)


def proxy_call(autowrap: tuple[type, ...], f: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call a function in a thread, or inline if ``nonblocking``. Wrap a result of the types ``autowrap`` in a Proxy."""
    nonblocking = kwargs.pop("nonblocking", False)
    found = f(*args, **kwargs) if nonblocking else execute(f, *args, **kwargs)
    return Proxy(found, autowrap) if isinstance(found, autowrap) else found


class Proxy:
    """An object whose methods are called in OS threads. Source: ``eventlet.tpool.Proxy``.

    ``autowrap``: types of results to wrap in a Proxy. ``autowrap_names``: names of attributes and methods whose value
    or result is wrapped.
    """

    def __init__(self, obj: Any, autowrap: tuple[type, ...] = (), autowrap_names: tuple[str, ...] = ()) -> None:
        self._obj = obj
        self._autowrap = autowrap
        self._autowrap_names = autowrap_names

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._obj, name)
        if not callable(found):
            if isinstance(found, self._autowrap) or name in self._autowrap_names:
                return Proxy(found, self._autowrap)
            return found

        def method(*args: Any, **kwargs: Any) -> Any:
            result = proxy_call(self._autowrap, found, *args, **kwargs)
            if name in self._autowrap_names and not isinstance(result, Proxy):
                return Proxy(result)
            return result

        return method

    # Python looks up these special methods in the class

    def __getitem__(self, key: Any) -> Any:
        return proxy_call(self._autowrap, self._obj.__getitem__, key)

    def __setitem__(self, key: Any, value: Any) -> None:
        proxy_call(self._autowrap, self._obj.__setitem__, key, value)

    def __deepcopy__(self, memo: Any = None) -> Any:
        return proxy_call(self._autowrap, self._obj.__deepcopy__, memo)

    def __copy__(self) -> Any:
        return proxy_call(self._autowrap, self._obj.__copy__)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        found = proxy_call(self._autowrap, self._obj, *args, **kwargs)
        return Proxy(found) if "__call__" in self._autowrap_names else found

    def __enter__(self) -> Any:
        return proxy_call(self._autowrap, self._obj.__enter__)

    def __exit__(self, *details: Any) -> Any:
        return proxy_call(self._autowrap, self._obj.__exit__, *details)

    def __iter__(self) -> Iterator[Any]:
        found = iter(self._obj)
        return self if found is self._obj else Proxy(found)

    def __next__(self) -> Any:
        # StopIteration cannot pass unchanged through a call in a thread.
        found = proxy_call(self._autowrap, next, self._obj, END)
        if found is END:
            raise StopIteration
        return found

    next = __next__

    # These methods run in the calling thread, because they do not wait and are called often

    def __eq__(self, other: object) -> bool:
        return bool(self._obj == other)

    def __hash__(self) -> int:
        return hash(self._obj)

    def __repr__(self) -> str:
        return repr(self._obj)

    def __str__(self) -> str:
        return str(self._obj)

    def __len__(self) -> int:
        return len(self._obj)

    def __bool__(self) -> bool:
        return bool(self._obj)


END: Any = object()
