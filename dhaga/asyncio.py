"""The standard ``asyncio.run``, Runner and loop classes on dhagas: an event loop runs inside the calling dhaga.

A program may block or close its own loop, and cancel all tasks of that loop. So each dhaga that calls ``asyncio.run``
has a separate loop: the standard loop over a selector that parks. While the loop is idle, or one of its coroutines
blocks, other dhagas run. The coroutines have the thread identity, locals and locks of the dhaga that runs the loop.

Rejected: running the coroutines on the scheduler's loop, as ``dhaga.await_`` does, because a coroutine that blocks
would stop all dhagas. Rejected: an OS thread for each loop, because the coroutines would not have the caller's locals
and RLocks, and the OS thread would get no signals. There is one exception: a loop that waits in C (uvloop) gets an OS
thread when a dhaga runs the loop with ``run`` or a Runner.
"""

from __future__ import annotations

import asyncio as standard
import contextlib
import os
import signal
import sys
from asyncio import _get_running_loop
from collections.abc import Callable, Coroutine, Iterator
from contextvars import Context
from functools import partial
from typing import Any, TypeVar

from greenlet import getcurrent

from ._kernel import hooks, originals
from ._kernel.api import spawn
from ._kernel.context_manager import contextmanager
from ._kernel.errors import Cancelled
from ._kernel.process.signals import on_ctrl_c
from ._kernel.run.microthread import Dhaga
from ._kernel.run.running_loop import beside_scheduler
from ._kernel.wait import cancellation
from ._kernel.wait.current import parking_waiter, this_thread, this_waiter
from ._sync.local import local
from ._workers.offload import OffloadPool
from .selectors import DefaultSelector
from .threading import get_ident

__all__ = [
    "DefaultEventLoopPolicy",
    "Runner",
    "SelectorEventLoop",
    "run",
]

T = TypeVar("T")

if sys.version_info >= (3, 14):  # Python 3.14 deprecates the public name, like all policies
    from asyncio.unix_events import _DefaultEventLoopPolicy as StandardPolicy
else:
    from asyncio import DefaultEventLoopPolicy as StandardPolicy

MAX_THREADS = 1000
"""The largest number of loops that wait in C and run at once, each in an OS thread."""


# ---- loops inside dhagas


def report_to_loop(_: object, error: BaseException) -> None:
    """Report to the running event loop an error that ends a park of the loop's code. From: ``hooks.on_park_error``."""
    loop = _get_running_loop()
    if isinstance(loop, SelectorEventLoop) and not isinstance(error, KeyboardInterrupt | SystemExit):
        loop.expect(error)


hooks.on_park_error = report_to_loop


class SelectorEventLoop(standard.SelectorEventLoop):
    """An event loop that parks while it is idle. Source: ``asyncio.SelectorEventLoop``.

    A cancel, kill or Timeout of the caller cancels the future of ``run_until_complete``, and is raised in the caller
    when the future has ended. If a coroutine or callback of the loop is parked when the error arrives, the error is
    first raised there.
    """

    parks = True
    """A mark for the kernel: dhagas spawned on this loop belong to the scheduler of the code that runs the loop."""

    def __init__(self, selector: Any = None) -> None:
        # The future that run_until_complete() waits for.
        self.awaited: standard.Future[Any] | None = None
        # expected: the error that ended the last park outside tasks. interrupted_by: the error to raise after this run.
        self.expected: BaseException | None = None
        self.interrupted_by: BaseException | None = None
        super().__init__(DefaultSelector() if selector is None else selector)
        on_event_loop = hooks.on_event_loop
        if on_event_loop is not None:
            on_event_loop(self)

    def run_forever(self) -> None:
        """Run until ``stop``. Parks: ``read fd N``, while the loop is idle."""
        with beside_scheduler():
            try:
                super().run_forever()
            except Cancelled:
                self.silence_left_tasks()
                raise
            if self.awaited is None and self.interrupted_by is not None:
                error, self.interrupted_by = self.interrupted_by, None
                raise error

    def silence_left_tasks(self) -> None:
        """Suppress warnings about unfinished tasks in a cancelled daemon: the interpreter's exit cancels daemons."""
        if getattr(getcurrent(), "daemon", False):
            for task in standard.all_tasks(self):
                task._log_destroy_pending = False  # type: ignore[attr-defined]

    def run_until_complete(self, future: Any) -> Any:
        """Run until a future is done. Parks: ``read fd N``, while the loop is idle."""
        with beside_scheduler():
            if _get_running_loop() is not None or self.is_closed() or self.is_running():
                return super().run_until_complete(future)  # raises the RuntimeError of asyncio
            awaited: Any = standard.ensure_future(future, loop=self)
            if awaited is not future:
                awaited._log_destroy_pending = False
            self.awaited = awaited
            awaited.add_done_callback(self.stop_after)
            try:
                self.run_awaited(awaited)
                value = awaited.result()
                keep_swallowed(self.interrupted_by)
                return value
            except BaseException as error:
                if awaited is not future and awaited.done() and not awaited.cancelled():
                    awaited.exception()  # otherwise asyncio logs the error as never retrieved
                if self.interrupted_by is None or not is_end_of_cancel(error, self.interrupted_by):
                    if error is not self.interrupted_by:
                        keep_swallowed(self.interrupted_by)
                    raise
                raise self.interrupted_by from error
            finally:
                self.awaited = self.expected = self.interrupted_by = None
                awaited.remove_done_callback(self.stop_after)

    def stop_after(self, future: Any) -> None:
        """Stop the loop when ``awaited`` is done. The end of an earlier run's future does not stop the loop."""
        if future is self.awaited:
            self.stop()

    def run_awaited(self, awaited: Any) -> None:
        """Run until the future is done. Each error that interrupts the caller cancels the future once."""
        while True:
            try:
                self.run_forever()
            except BaseException as error:
                if error is not self.expected or awaited.done():
                    raise
                self.interrupt(error)
            else:
                break
        if not awaited.done():
            raise RuntimeError("Event loop stopped before Future completed.")

    def expect(self, error: BaseException) -> None:
        """Prepare for an error that a park in this loop is about to raise, so that no task swallows the error."""
        task = standard.current_task(self)
        if task is None:
            self.expected = error
        elif task is not self.awaited and not isinstance(error, Exception):
            task.add_done_callback(partial(self.pass_on, error))

    def pass_on(self, error: BaseException, task: standard.Task[Any]) -> None:
        """Interrupt the run if a task has ended with an error that was meant for the caller of the run."""
        if not task.cancelled() and task.exception() is error:
            self.interrupt(error)

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Report an error of a callback. An error that was meant for the caller interrupts the run instead."""
        error: Any = context.get("exception")
        if error is not self.expected or error is None or isinstance(error, Exception):
            super().call_exception_handler(context)
        else:
            self.interrupt(error)

    def interrupt(self, error: BaseException) -> None:
        """Cancel the future that the caller waits for, or stop the loop. The error is raised at the end of the run."""
        self.interrupted_by = error
        if self.awaited is None:
            self.stop()
        else:
            self.awaited.cancel()


def is_end_of_cancel(error: BaseException, interruption: BaseException) -> bool:
    """Return whether an error results from ``interrupt``: CancelledError, or a TaskGroup's group of interruptions."""
    if isinstance(error, BaseExceptionGroup):
        return error.split(type(interruption))[1] is None
    return isinstance(error, standard.CancelledError)


def keep_swallowed(error: BaseException | None) -> None:
    """Raise at the caller's next park an error that the coroutine has swallowed, as ``await_`` does."""
    if error is not None:
        cancellation.keep_swallowed(this_waiter(), error)


@contextmanager
def pending_withheld() -> Iterator[None]:
    """Withhold the caller's pending errors during a ``with`` block, which would otherwise end at its first park."""
    me = parking_waiter()
    errors = [] if me is None else [error for error in me.pending_errors if isinstance(error, BaseException)]
    for error in errors:
        me.pending_errors.drop(error)  # type: ignore[union-attr]
    try:
        yield
    finally:
        for error in errors:
            me.cancel_with(error)  # type: ignore[union-attr]


# ---- asyncio.run


def run(main: Coroutine[Any, Any, T], *, debug: bool | None = None, loop_factory: Callable[[], Any] | None = None) -> T:
    """Run a coroutine on a new loop. Parks: while the loop is idle. Source: ``asyncio.run``."""
    with beside_scheduler():
        if _get_running_loop() is not None:
            raise RuntimeError("asyncio.run() cannot be called from a running event loop")
        with Runner(debug=debug, loop_factory=loop_factory) as runner:
            return runner.run(main)


def parking_factory() -> Callable[[], Any] | None:
    """Return the loop factory of a Runner; None if the Runner must use the current policy's loop."""
    policy: Any = vars(standard.events).get("_event_loop_policy")
    native = StandardPolicy._loop_factory is not SelectorEventLoop  # type: ignore[attr-defined]
    return SelectorEventLoop if native and (policy is None or makes_standard_loops(policy)) else None


def makes_standard_loops(policy: Any) -> bool:
    """Return whether a policy makes asyncio's loops or ours, and not, for example, uvloop's.

    ``await_`` changes the class of the standard policy, and our policy remains after the end of a patch. On Windows,
    asyncio's policy makes Proactor loops.
    """
    makes_loops = getattr(type(policy), "new_event_loop", None) is StandardPolicy.new_event_loop
    proactor = getattr(standard, "ProactorEventLoop", SelectorEventLoop)
    return makes_loops and policy._loop_factory in (originals.SelectorEventLoop, SelectorEventLoop, proactor)


class Runner(standard.Runner):  # type: ignore[misc]
    """A context manager that runs several coroutines on one loop. Parks: like ``run``. Source: ``asyncio.Runner``."""

    runs_in_thread: bool = False

    def __init__(self, *, debug: bool | None = None, loop_factory: Callable[[], Any] | None = None) -> None:
        super().__init__(debug=debug, loop_factory=loop_factory or parking_factory())

    def run(self, coro: Coroutine[Any, Any, T], *, context: Context | None = None) -> Any:
        """Run a coroutine. A cancel of the caller cancels the coroutine, and is raised when the coroutine has ended."""
        with beside_scheduler(), default_ctrl_c():
            nested = _get_running_loop() is not None or not standard.iscoroutine(coro)
            if nested or not isinstance(getcurrent(), Dhaga) or getattr(self.get_loop(), "parks", False):
                return super().run(coro, context=context)
            self.runs_in_thread = True
            return RunInThread(self.get_loop(), coro).run(super().run, context)

    def close(self) -> None:
        """Close the loop. A cancel that is already pending is raised at the caller's next park after the close.

        A loop that ran in an OS thread is also closed in an OS thread: in the main thread, the close could remove
        Dhaga's signal fd.
        """
        with pending_withheld():
            if not self.runs_in_thread:
                super().close()
                return
            threads.finish(super().close)
        if getattr(self, "_set_event_loop", False):  # the close cannot unset this thread's loop
            standard.set_event_loop(None)


@contextmanager
def default_ctrl_c() -> Iterator[None]:
    """Install the default handler of Ctrl-C during a ``with`` block in main code, for the standard Runner."""
    # The standard Runner's own handler cancels the task. The Runner replaces only the default handler.
    ours = not isinstance(getcurrent(), Dhaga) and signal.getsignal(signal.SIGINT) is on_ctrl_c
    if ours:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        if ours and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            signal.signal(signal.SIGINT, on_ctrl_c)


class RunInThread:
    """The run of a coroutine in an OS thread, on a loop that waits in C. A dhaga waits for the run's end."""

    def __init__(self, loop: standard.AbstractEventLoop, coro: Coroutine[Any, Any, Any]) -> None:
        self.loop = loop
        self.coro = coro
        self.cancels: int = 0
        self.task: Any = None

    def run(self, run: Callable[..., Any], context: Context | None) -> Any:
        """Run the coroutine with the method ``run`` of a standard Runner. Parks: ``offload asyncio``."""
        call = spawn(threads.finish, self.run_blocking, run, context, name="asyncio.run")
        cancelled_by: BaseException | None = None
        while True:
            try:
                value = call.result()
                keep_swallowed(cancelled_by)
                return value
            except standard.CancelledError as error:
                raise (cancelled_by or error) from error
            except BaseException as error:
                if call.has_ended:
                    keep_swallowed(cancelled_by)
                    raise
                cancelled_by = error
                with contextlib.suppress(RuntimeError):  # the coroutine has ended and the loop is closed
                    self.loop.call_soon_threadsafe(self.cancel)

    def run_blocking(self, run: Callable[..., Any], context: Context | None) -> Any:
        """Run the coroutine in this OS thread, which the coroutine may block."""
        # During the run, a call that must wait blocks this thread instead of raising ParkError.
        this_thread.loop_may_block = True
        try:
            return run(self.main(), context=context)
        finally:
            this_thread.loop_may_block = False

    async def main(self) -> Any:
        self.task = standard.current_task()
        for _ in range(self.cancels):
            self.task.cancel()
        return await self.coro

    def cancel(self) -> None:
        """Cancel the coroutine, or make ``main`` cancel it if ``main`` has not started. From: the loop's thread."""
        self.cancels += 1
        if self.task is not None:
            self.task.cancel()


threads: OffloadPool = OffloadPool("asyncio", MAX_THREADS)


class BaseEventLoop(standard.BaseEventLoop):
    """A mixin for the debug mode of loops: ``_check_thread`` also accepts the ident of the running dhaga."""

    def _check_thread(self) -> None:
        if self._thread_id not in (None, get_ident(), originals.get_ident()):  # type: ignore[attr-defined]
            raise RuntimeError("Non-thread-safe operation invoked on an event loop other than the current one")


# ---- the current loop


class CurrentLoop(local):
    """The loop that ``set_event_loop`` has set, separately for each dhaga."""

    _loop = None
    _set_called = False


if sys.version_info < (3, 12):

    class PidfdWatcher(standard.ThreadedChildWatcher):
        """A child watcher without threads: the loop that started a child waits for the child's pidfd."""

        def add_child_handler(self, pid: int, callback: Any, *args: Any) -> None:  # type: ignore[override]
            """Register ``callback(pid, exit_code, *args)`` for the exit of a child."""
            loop, fd = standard.get_running_loop(), os.pidfd_open(pid)
            loop.add_reader(fd, self.reap, loop, fd, pid, callback, args)

        def reap(self, loop: Any, fd: int, pid: int, callback: Callable[..., object], args: tuple[Any, ...]) -> None:
            """Reap the child and report its exit code; as in asyncio, 255 if the child was reaped already."""
            loop.remove_reader(fd)
            os.close(fd)
            try:
                code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
            except ChildProcessError:  # another waitpid has reaped the child
                code = 255
            callback(pid, code, *args)


class DefaultEventLoopPolicy(StandardPolicy):
    """A policy with a current loop for each dhaga. Source: ``asyncio.DefaultEventLoopPolicy``."""

    _loop_factory = SelectorEventLoop

    def __init__(self) -> None:
        super().__init__()
        self._local = CurrentLoop()  # replaces the standard object, which is per OS thread and has no public name
        if sys.version_info < (3, 12) and hasattr(os, "pidfd_open"):
            self.set_child_watcher(PidfdWatcher())  # Python 3.12 and later use pidfds


def set_loops_of_policy(ours: bool) -> None:
    """Set which loops our policy creates. asyncio keeps the policy after a patch. From: a patch's start and end."""
    policy: Any = vars(standard.events).get("_event_loop_policy")
    if isinstance(policy, DefaultEventLoopPolicy):
        vars(policy).pop("_loop_factory", None)
        if not ours:
            vars(policy)["_loop_factory"] = originals.SelectorEventLoop


_DefaultEventLoopPolicy = DefaultEventLoopPolicy  # the name from Python 3.14 on, which deprecates the public name
