"""``gevent.threadpool``: pools of OS threads that make calls while the calling greenlets wait."""

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
    """An object that makes one call in an OS thread, with the profile and trace functions of ``threading``."""

    def __init__(self, threadpool: ThreadPool) -> None:
        self.threadpool = threadpool

    def run_task(self, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call the function with an empty context. From: an OS thread of the pool."""
        # A new thread starts with the profile and trace functions of ``threading`` installed. Remove them.
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
        # The setters are called only when needed, because each call raises an audit event.
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
    """A pool of at most ``maxsize`` OS threads that make calls. Source: ``gevent.threadpool.ThreadPool``."""

    _WorkerGreenlet = Worker
    """The class of the workers; a subclass may replace it."""

    def __init__(self, maxsize: int, hub: Any = None, idle_task_timeout: float = -1) -> None:
        super().__init__()
        self._thread = originals.get_ident()
        self._has_threads = Event()
        self._pool = OffloadPool("gevent threadpool", max(1, maxsize))
        self._asked = 0
        self.maxsize = maxsize

    @property
    def maxsize(self) -> int:
        """The maximum number of OS threads, which a program may change. While it is 0, calls wait."""
        return self._maxsize

    @maxsize.setter
    def maxsize(self, maxsize: int) -> None:
        if not isinstance(maxsize, int):
            raise TypeError(f"maxsize must be integer: {maxsize!r}")
        if maxsize < 0:
            raise ValueError(f"maxsize must not be negative: {maxsize!r}")
        self._maxsize = maxsize
        if maxsize:
            self._pool.workers.limit = maxsize
            self._has_threads.set()
        else:
            self._has_threads.clear()

    @property
    def size(self) -> int:
        """The number of OS threads, or the size that the program has set, if greater. Threads start only on demand."""
        return min(self._maxsize, max(self._asked, len(self._pool.workers.threads)))

    @size.setter
    def size(self, size: int) -> None:
        if not 0 <= size <= self._maxsize:
            raise ValueError(f"the size of a ThreadPool is from 0 to its maxsize, {self._maxsize}, not {size}")
        self._asked = size

    @property
    def task_queue(self) -> Any:
        return self.greenlets

    def spawn(self, func: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Call a function in an OS thread. Returns: an object with ``get()`` and ``link()`` for the outcome."""
        if originals.get_ident() != self._thread:
            raise InvalidThreadUseError(f"{self!r} takes calls in the OS thread that has made it, and in no other")
        return super().spawn(self._call, func, *args, **kwargs)

    def _call(self, func: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        self._has_threads.wait()
        return self._pool.offload(self._WorkerGreenlet(self).run_task, func, args, kwargs)

    def apply(self, func: Callable[..., Any], args: Any = None, kwds: Any = None) -> Any:
        """Call a function in an OS thread. Parks: until the call ends. Returns: the function's result."""
        return self._call(func, *(args or ()), **(kwds or {}))

    def join(self, timeout: float | None = None, raise_error: bool = False) -> bool:
        return super().join(timeout, raise_error)

    def kill(self, *_: object, **__: object) -> None:
        """Wait for all calls, because an OS thread cannot be killed, and then end the threads."""
        self.join()
        ended, self._pool = self._pool, OffloadPool("gevent threadpool", max(1, self.maxsize))
        ended.shutdown()

    def adjust(self) -> None: ...


class ThreadPoolExecutor(concurrent.futures.ThreadPoolExecutor):
    """The standard executor, which uses OS threads even in a patched program. Greenlets can wait for its futures."""

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
        # The caller may run in an OS thread without greenlets, such as a thread of the pool.
        self._scheduler.call(Greenlet.spawn, self._offload, future, partial(fn, *args, **kwargs))
        return future

    def _offload(self, future: Future[Any], call: Callable[[], Any]) -> None:
        try:
            self._pool.offload(self._make, future, call)
        except RuntimeError as error:  # no thread could be started
            future.set_exception(error)

    def _make(self, future: Future[Any], call: Callable[[], Any]) -> None:
        """Make one call and set its future. From: an OS thread of the pool."""
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
        """Reject further calls. Parks: if ``wait``, until the accepted calls have ended."""
        self._open = False
        for future in list(self._pending):
            if cancel_futures:
                future.cancel()
        if wait:
            futures.wait(list(self._pending))
            self._pool.shutdown()

    kill = shutdown
