"""The standard ``asyncio.run``, Runner and loop classes on dhagas: a program's event loop runs inside its dhaga.

A program may block its own loop, close it, and cancel all of its tasks. So each dhaga that calls ``asyncio.run`` has
one: the standard loop over a selector that parks. While the loop is idle, or one of its coroutines blocks, other
dhagas run. Its coroutines see the thread identity, locals and locks of the dhaga that runs the loop.

Rejected: the scheduler's loop for all, because a coroutine that blocks would stop all dhagas (use that loop with
``dhaga.await_``); an OS thread for each loop, which would have other locals and RLocks than the caller, and get no
signals. Only a loop that waits in C (uvloop) gets an OS thread, if a dhaga runs it with ``run`` or a Runner.
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
from ._kernel.wait.current import this_thread
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

if sys.version_info >= (3, 14):  # the public name is deprecated there, like policies
    from asyncio.unix_events import _DefaultEventLoopPolicy as StandardPolicy
else:
    from asyncio import DefaultEventLoopPolicy as StandardPolicy

MAX_THREADS = 1000
"""The number of loops of other implementations that run at once, each in an OS thread."""


# ---- loops inside of dhagas


def report_to_loop(_: object, error: BaseException) -> None:
    """Report an error that ends a park in a loop to that loop. From: ``hooks.on_park_error``."""
    loop = _get_running_loop()
    if isinstance(loop, SelectorEventLoop) and not isinstance(error, KeyboardInterrupt | SystemExit):
        loop.expect(error)


hooks.on_park_error = report_to_loop


class SelectorEventLoop(standard.SelectorEventLoop):
    """An event loop that parks while it is idle. Source: ``asyncio.SelectorEventLoop``.

    A cancel, kill or Timeout of the caller cancels the future of ``run_until_complete``, and is raised when the future
    has ended. If it strikes where a coroutine or callback blocks, it is raised there first.
    """

    parks = True
    """Tells the kernel that dhagas spawned here belong to the scheduler of the waiter that runs the loop."""

    def __init__(self, selector: Any = None) -> None:
        # The future of run_until_complete.
        self.awaited: standard.Future[Any] | None = None
        # The error that ended the last park outside tasks, and the one to raise at the end of this run.
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
        """Suppress warnings about unfinished tasks of a daemon that the interpreter's exit has cancelled."""
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
                return awaited.result()
            except BaseException as error:
                if awaited is not future and awaited.done() and not awaited.cancelled():
                    awaited.exception()  # else it is logged as never retrieved
                if self.interrupted_by is None or not is_end_of_cancel(error, self.interrupted_by):
                    raise
                raise self.interrupted_by from error
            finally:
                self.awaited = self.expected = self.interrupted_by = None
                awaited.remove_done_callback(self.stop_after)

    def stop_after(self, future: Any) -> None:
        """Stop after the end of ``awaited``; a run that has ended earlier does not stop the next one."""
        if future is self.awaited:
            self.stop()

    def run_awaited(self, awaited: Any) -> None:
        """Run until the future is done; each interruption of the caller cancels it once, and is raised at its end."""
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
        """Prepare for an error that a park of this loop is about to raise: no task may keep it."""
        task = standard.current_task(self)
        if task is None:
            self.expected = error
        elif task is not self.awaited and not isinstance(error, Exception):
            task.add_done_callback(partial(self.pass_on, error))

    def pass_on(self, error: BaseException, task: standard.Task[Any]) -> None:
        """Interrupt the run if a task has ended by an error that was meant for the caller."""
        if not task.cancelled() and task.exception() is error:
            self.interrupt(error)

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Report an error of a callback. One that was meant for the caller interrupts the run instead."""
        error: Any = context.get("exception")
        if error is not self.expected or error is None or isinstance(error, Exception):
            super().call_exception_handler(context)
        else:
            self.interrupt(error)

    def interrupt(self, error: BaseException) -> None:
        """Cancel what the caller awaits, or stop; the error is raised at the end of the run."""
        self.interrupted_by = error
        if self.awaited is None:
            self.stop()
        else:
            self.awaited.cancel()


def is_end_of_cancel(error: BaseException, interruption: BaseException) -> bool:
    """Return whether a cancelled future ends so: by CancelledError, or by the group in which a TaskGroup raises."""
    if isinstance(error, BaseExceptionGroup):
        return error.split(type(interruption))[1] is None
    return isinstance(error, standard.CancelledError)


# ---- asyncio.run


def run(main: Coroutine[Any, Any, T], *, debug: bool | None = None, loop_factory: Callable[[], Any] | None = None) -> T:
    """Run a coroutine on a new loop. Parks: while the loop is idle. Source: ``asyncio.run``."""
    with beside_scheduler():
        if _get_running_loop() is not None:
            raise RuntimeError("asyncio.run() cannot be called from a running event loop")
        with Runner(debug=debug, loop_factory=loop_factory) as runner:
            return runner.run(main)


def parking_factory() -> Callable[[], Any] | None:
    """Return the function that makes a Runner's loop; None where the loop of the standard policy parks."""
    policy = vars(standard.events).get("_event_loop_policy")
    native = StandardPolicy._loop_factory is not SelectorEventLoop  # type: ignore[attr-defined]
    return SelectorEventLoop if native and (policy is None or type(policy) is StandardPolicy) else None


class Runner(standard.Runner):  # type: ignore[misc]
    """Runs coroutines on one loop, one after the other. Parks: as ``run``. Source: ``asyncio.Runner``."""

    runs_in_thread: bool = False

    def __init__(self, *, debug: bool | None = None, loop_factory: Callable[[], Any] | None = None) -> None:
        super().__init__(debug=debug, loop_factory=loop_factory or parking_factory())

    def run(self, coro: Coroutine[Any, Any, T], *, context: Context | None = None) -> Any:
        """Run a coroutine. A cancel of the caller cancels the coroutine, and is raised once the coroutine has ended."""
        with beside_scheduler(), default_ctrl_c():
            nested = _get_running_loop() is not None or not standard.iscoroutine(coro)
            if nested or not isinstance(getcurrent(), Dhaga) or getattr(self.get_loop(), "parks", False):
                return super().run(coro, context=context)
            self.runs_in_thread = True
            return RunInThread(self.get_loop(), coro).run(super().run, context)

    def close(self) -> None:
        """Close the loop. One that waits in C closes in an OS thread: here it would set the signals' wake-up fd."""
        if not self.runs_in_thread:
            super().close()
            return
        threads.finish(super().close)
        if getattr(self, "_set_event_loop", False):  # the loop was not current in that thread
            standard.set_event_loop(None)


@contextmanager
def default_ctrl_c() -> Iterator[None]:
    """Show the default handler of Ctrl-C to the standard Runner, in main code, and restore ours afterwards."""
    # The Runner installs its own handler, which cancels its task, only in place of the default one.
    ours = not isinstance(getcurrent(), Dhaga) and signal.getsignal(signal.SIGINT) is on_ctrl_c
    if ours:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        if ours and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            signal.signal(signal.SIGINT, on_ctrl_c)


class RunInThread:
    """A coroutine on a loop that waits in C: run in an OS thread while a dhaga waits for it."""

    def __init__(self, loop: standard.AbstractEventLoop, coro: Coroutine[Any, Any, Any]) -> None:
        self.loop = loop
        self.coro = coro
        self.cancels: int = 0
        self.task: Any = None

    def run(self, run: Callable[..., Any], context: Context | None) -> Any:
        """Run the coroutine with ``run`` of a standard Runner. Parks: ``offload asyncio``."""
        call = spawn(threads.finish, self.run_blocking, run, context, name="asyncio.run")
        cancelled_by: BaseException | None = None
        while True:
            try:
                return call.result()
            except standard.CancelledError as error:
                raise (cancelled_by or error) from error
            except BaseException as error:
                if call.has_ended:
                    raise
                cancelled_by = error
                with contextlib.suppress(RuntimeError):  # the loop is closed: the coroutine has ended
                    self.loop.call_soon_threadsafe(self.cancel)

    def run_blocking(self, run: Callable[..., Any], context: Context | None) -> Any:
        """Run the coroutine in this OS thread, which it may block."""
        # Calls that would park block this thread from now on, instead of raising ParkError.
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
        """Cancel the coroutine, or let ``main`` do so at its start. From: the loop's thread."""
        self.cancels += 1
        if self.task is not None:
            self.task.cancel()


threads: OffloadPool = OffloadPool("asyncio", MAX_THREADS)


class BaseEventLoop(standard.BaseEventLoop):
    """Mixin for a loop's debug mode: dhagas share an OS thread, so their idents count as the loop's own thread."""

    def _check_thread(self) -> None:
        if self._thread_id not in (None, get_ident(), originals.get_ident()):  # type: ignore[attr-defined]
            raise RuntimeError("Non-thread-safe operation invoked on an event loop other than the current one")


# ---- the current loop


class CurrentLoop(local):
    """The loop set by ``set_event_loop``, kept for each dhaga."""

    _loop = None
    _set_called = False


if sys.version_info < (3, 12):

    class PidfdWatcher(standard.ThreadedChildWatcher):
        """Waits for child processes with pidfds, without a thread, on the loop that started them."""

        def add_child_handler(self, pid: int, callback: Any, *args: Any) -> None:  # type: ignore[override]
            """Register ``callback(pid, exit code, *args)`` for the exit of a child."""
            loop, fd = standard.get_running_loop(), os.pidfd_open(pid)
            loop.add_reader(fd, self.reap, loop, fd, pid, callback, args)

        def reap(self, loop: Any, fd: int, pid: int, callback: Callable[..., object], args: tuple[Any, ...]) -> None:
            """Reap the child and report its exit code; 255, as in asyncio, if it was reaped already."""
            loop.remove_reader(fd)
            os.close(fd)
            try:
                code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
            except ChildProcessError:  # reaped by another waitpid
                code = 255
            callback(pid, code, *args)


class DefaultEventLoopPolicy(StandardPolicy):
    """Makes the loops, and keeps a current one for each dhaga. Source: ``asyncio.DefaultEventLoopPolicy``."""

    _loop_factory = SelectorEventLoop

    def __init__(self) -> None:
        super().__init__()
        self._local = CurrentLoop()  # the standard one is per OS thread; it has no public name
        if sys.version_info < (3, 12) and hasattr(os, "pidfd_open"):
            self.set_child_watcher(PidfdWatcher())  # 3.12 and later use pidfds by themselves


def set_loops_of_policy(ours: bool) -> None:
    """Choose the loops of a policy that asyncio has made under a patch, and keeps. From: a patch, and its end."""
    policy: Any = vars(standard.events).get("_event_loop_policy")
    if isinstance(policy, DefaultEventLoopPolicy):
        vars(policy).pop("_loop_factory", None)
        if not ours:
            vars(policy)["_loop_factory"] = originals.SelectorEventLoop


_DefaultEventLoopPolicy = DefaultEventLoopPolicy  # its name from Python 3.14 on, where the other one is deprecated
