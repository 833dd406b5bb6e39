"""``gevent.threadpool``: calls in OS threads, while the calling greenlets wait."""

from __future__ import annotations

import concurrent.futures
import sys
import threading
from collections.abc import Callable
from contextvars import Context
from functools import partial
from typing import Any

from ... import futures
from ..._kernel import originals
from ..._kernel.process.current_scheduler import current_scheduler
from ..._sync.event import Event
from ..._workers.future import Future
from ..._workers.offload import OffloadPool
from .exceptions import InvalidThreadUseError
from .greenlet import Greenlet
from .pool import Group

__all__ = ["ThreadPool", "ThreadPoolExecutor", "ThreadResult"]

ThreadResult = Greenlet
_get_thread_profile, _get_thread_trace = threading.getprofile, threading.gettrace


class Worker:
    """Makes one call in an OS thread. Meanwhile the profile and trace functions of ``threading`` apply."""

    def __init__(self, threadpool: ThreadPool) -> None:
        self.threadpool = threadpool

    def run_task(self, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Make the call, with an empty context. From: an OS thread of the pool."""
        # A new thread has those functions already.
        if sys.getprofile() is not None:
            sys.setprofile(None)
        if sys.gettrace() is not None:
            sys.settrace(None)
        self._before_run_task(func, args, kwargs, None)
        try:
            return Context().run(func, *args, **kwargs)
        finally:
            self._after_run_task(func, args, kwargs, None)

    def _before_run_task(
        self,
        func: Any,
        args: Any,
        kwargs: Any,
        thread_result: Any,
        _sys: Any = sys,
        _get_thread_profile: Callable[[], Any] = threading.getprofile,
        _get_thread_trace: Callable[[], Any] = threading.gettrace,
    ) -> None:
        # Setters are called only when needed: each raises an audit event.
        profile, trace = _get_thread_profile(), _get_thread_trace()
        if profile is not None:
            _sys.setprofile(profile)
        if trace is not None:
            _sys.settrace(trace)

    def _after_run_task(self, func: Any, args: Any, kwargs: Any, thread_result: Any, _sys: Any = sys) -> None:
        if _sys.getprofile() is not None:
            _sys.setprofile(None)
        if _sys.gettrace() is not None:
            _sys.settrace(None)


class ThreadPool(Group):
    """At most ``maxsize`` OS threads that make calls. Source: ``gevent.threadpool.ThreadPool``."""

    _WorkerGreenlet = Worker
    """The attribute for subclasses to override."""

    def __init__(self, maxsize: int, hub: Any = None, idle_task_timeout: float = -1) -> None:
        super().__init__()
        self._thread = originals.get_ident()
        self._has_threads = Event()
        self._pool = OffloadPool("gevent threadpool", max(1, maxsize))
        self._asked = 0
        self.maxsize = maxsize

    @property
    def maxsize(self) -> int:
        """The number of OS threads that the pool may have. May be set; with 0, calls wait for a greater number."""
        return self._maxsize

    @maxsize.setter
    def maxsize(self, maxsize: int) -> None:
        if not isinstance(maxsize, int):
            raise TypeError(f"maxsize must be integer: {maxsize!r}")
        if maxsize < 0:
            raise ValueError(f"maxsize must not be negative: {maxsize!r}")
        self._maxsize = maxsize
        if maxsize:
            self._pool._limit = maxsize
            self._has_threads.set()
        else:
            self._has_threads.clear()

    @property
    def size(self) -> int:
        """The number of OS threads, or the number that was set. Threads start on demand in any case."""
        return min(self._maxsize, max(self._asked, len(self._pool._threads)))

    @size.setter
    def size(self, size: int) -> None:
        if not 0 <= size <= self._maxsize:
            raise ValueError(f"the size of a ThreadPool is from 0 to its maxsize, {self._maxsize}, not {size}")
        self._asked = size

    @property
    def task_queue(self) -> Any:
        return self.greenlets

    def spawn(self, func: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Call in an OS thread. Returns: an object with ``get()`` and ``link()`` for the outcome."""
        if originals.get_ident() != self._thread:
            raise InvalidThreadUseError(f"{self!r} takes calls in the OS thread that has made it, and in no other")
        return super().spawn(self._call, func, *args, **kwargs)

    def _call(self, func: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        self._has_threads.wait()
        return self._pool.offload(self._WorkerGreenlet(self).run_task, func, args, kwargs)

    def apply(self, func: Callable[..., Any], args: Any = None, kwds: Any = None) -> Any:
        """Call in an OS thread. Parks: until it ends. Returns: its result."""
        return self._call(func, *(args or ()), **(kwds or {}))

    def join(self, timeout: float | None = None, raise_error: bool = False) -> bool:
        return super().join(timeout, raise_error)

    def kill(self, *_: object, **__: object) -> None:
        """Wait until the calls that run have ended, and end the threads: an OS thread cannot be killed."""
        self.join()
        ended, self._pool = self._pool, OffloadPool("gevent threadpool", max(1, self.maxsize))
        ended.shutdown()

    def adjust(self) -> None: ...


class ThreadPoolExecutor(concurrent.futures.ThreadPoolExecutor):
    """The standard executor on OS threads, also in a patched program; its futures may be waited for by greenlets."""

    def __init__(
        self,
        max_workers: int | None = None,
        thread_name_prefix: str = "",
        initializer: Callable[..., object] | None = None,
        initargs: tuple[Any, ...] = (),
    ) -> None:
        super().__init__(max_workers, thread_name_prefix, initializer, initargs)
        self._initialize = None if initializer is None else partial(initializer, *initargs)
        self._initialized = originals.local()
        self._pool = OffloadPool(thread_name_prefix or "gevent ThreadPoolExecutor", self._max_workers)
        self._scheduler = current_scheduler()
        self._open = True
        self._pending: set[Future[Any]] = set()

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """Schedule a call in an OS thread. Parks: never. Raises: RuntimeError after ``shutdown``."""
        if not self._open:
            raise RuntimeError("cannot schedule new futures after shutdown")
        future: Future[Any] = Future()
        self._pending.add(future)
        future.add_done_callback(self._pending.discard)
        # The caller may be in an OS thread without greenlets, such as those of the pool.
        self._scheduler.call(Greenlet.spawn, self._offload, future, partial(fn, *args, **kwargs))
        return future

    def _offload(self, future: Future[Any], call: Callable[[], Any]) -> None:
        try:
            self._pool.offload(self._make, future, call)
        except RuntimeError as error:  # no thread could be started
            future.set_exception(error)

    def _make(self, future: Future[Any], call: Callable[[], Any]) -> None:
        """Make a call. From: an OS thread of the pool."""
        if not future.set_running_or_notify_cancel():
            return
        try:
            if self._initialize is not None and not hasattr(self._initialized, "done"):
                self._initialize()
                self._initialized.done = True
            result = call()
        except BaseException as error:
            future.set_exception(error)
        else:
            future.set_result(result)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Reject further calls. Parks: if ``wait``, until the accepted ones have ended."""
        self._open = False
        for future in list(self._pending):
            if cancel_futures:
                future.cancel()
        if wait:
            futures.wait(list(self._pending))
            self._pool.shutdown()

    kill = shutdown
