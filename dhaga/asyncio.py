"""The standard ``asyncio.run``, Runner and loop classes on dhagas: a program's event loop runs inside its dhaga.

A program may block its own loop, close it, and cancel all of its tasks. So each dhaga that calls ``asyncio.run`` has
one: the standard loop over a selector that parks. While the loop is idle, or one of its coroutines blocks, other
dhagas run. Its coroutines see the thread identity, locals and locks of the dhaga that runs the loop.

An OS thread can show one running loop at a time, and shows none in dhagas and main code (``_kernel/run/scheduler.py``).
A waiter that runs a program's loop has a ``LoopRun``: while it runs, the thread shows its loop and asyncgen hooks;
whenever it parks, ``around_park`` shows no loop, and the hooks from outside that loop. A run begins in
``beside_scheduler``, or later, if another OS thread than the main one gets its scheduler only within the loop.

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
from asyncio import _get_running_loop, _set_running_loop
from collections.abc import Callable, Coroutine, Iterator
from contextvars import Context
from typing import Any, TypeVar

from greenlet import getcurrent

from ._kernel import hooks, originals
from ._kernel.api import spawn
from ._kernel.context_manager import contextmanager
from ._kernel.errors import Cancelled, Expired
from ._kernel.process.signals import on_ctrl_c
from ._kernel.run.main_code import Main
from ._kernel.run.microthread import Dhaga
from ._kernel.run.scheduler import Scheduler
from ._kernel.wait.current import parking_waiter, this_thread
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

TASK_IS_OF_THREAD = sys.version_info >= (3, 14)
"""Whether Python keeps the current task per OS thread, like the running loop; older Pythons keep a task for each loop.
"""

swap_task: Callable[[Any, Any], Any] = getattr(standard.tasks, "_swap_current_task", None)  # type: ignore[assignment]
MAX_THREADS = 1000
"""The number of loops of other implementations that run at once, each in an OS thread."""


# ---- loops inside of dhagas


class LoopRun:
    """One run of a program's loop by a waiter; ``hooks``: the asyncgen hooks that apply outside that loop."""

    def __init__(self) -> None:
        self.hooks: tuple[Any, ...] = sys.get_asyncgen_hooks()


loop_runs: dict[Scheduler, dict[Any, LoopRun]] = {}
"""The waiters that run a loop of the program, by scheduler. Only the scheduler's OS thread uses its entry."""


def around_park(me: Any, switch_away: Callable[[], None]) -> None:
    """Switch away from a waiter. If it runs a loop, the thread shows no loop meanwhile, and the outer hooks.

    ``Scheduler.around_park`` calls this function while any of its waiters runs a loop.
    """
    loop_run = loop_runs[me.scheduler].get(me)
    if loop_run is None:
        switch_away()
        return
    loop, hooks = _get_running_loop(), sys.get_asyncgen_hooks()
    task = None if loop is None or not TASK_IS_OF_THREAD else swap_task(loop, None)
    _set_running_loop(None)
    sys.set_asyncgen_hooks(*loop_run.hooks)
    try:
        switch_away()
    finally:
        loop_run.hooks = sys.get_asyncgen_hooks()
        sys.set_asyncgen_hooks(*hooks)
        _set_running_loop(loop)
        if task is not None:
            swap_task(loop, task)


def runs_loop(me: Any) -> bool:
    """Return whether a waiter runs a loop of the program."""
    return me in loop_runs.get(me.scheduler, ())


def begin_loop_run(me: Any) -> None:
    """Mark ``me`` as running a loop of its own, which other waiters do not see."""
    scheduler = me.scheduler
    loop_runs.setdefault(scheduler, {})[me] = LoopRun()
    scheduler.add_around_park(around_park)


def end_loop_run(me: Any) -> None:
    """Mark ``me`` as no longer running a loop of its own. No-op in a forked child that got a new scheduler."""
    scheduler = me.scheduler
    if not runs_loop(me):
        return
    sys.set_asyncgen_hooks(*loop_runs[scheduler].pop(me).hooks)
    if not loop_runs[scheduler]:
        scheduler.remove_around_park(around_park)
        del loop_runs[scheduler]


@contextmanager
def beside_scheduler() -> Iterator[None]:
    """Context manager for a program that runs its own loop, and may park in it."""
    if _get_running_loop() is not None:
        yield  # nested: the standard code refuses that
        return
    me = parking_waiter()
    if me is None:
        try:
            yield
        finally:
            end_late_loop_run()
    elif runs_loop(me):
        yield
    else:
        begin_loop_run(me)
        try:
            yield
        finally:
            end_loop_run(me)


def begin_late_loop_run(main: Main) -> None:
    """Begin a run of main code that gets its scheduler only within the loop. From: ``hooks.on_main_code``."""
    if getattr(_get_running_loop(), "parks", False):
        begin_loop_run(main)
        # The current hooks are the loop's; there were none outside.
        loop_runs[main.scheduler][main].hooks = (None, None)


hooks.on_main_code = begin_late_loop_run


def end_late_loop_run() -> None:
    """End the run that ``begin_late_loop_run`` began, if it did."""
    if this_thread.main is not None and runs_loop(this_thread.main):
        end_loop_run(this_thread.main)


class SelectorEventLoop(standard.SelectorEventLoop):
    """An event loop that parks while it is idle. Source: ``asyncio.SelectorEventLoop``.

    A cancel or Timeout of the caller cancels the future of ``run_until_complete``, and is raised when the future has
    ended.
    """

    parks = True
    """Tells the kernel that dhagas spawned here belong to the scheduler of the waiter that runs the loop."""

    def __init__(self, selector: Any = None) -> None:
        super().__init__(DefaultSelector() if selector is None else selector)
        if hooks.on_event_loop is not None:
            hooks.on_event_loop(self)

    def run_forever(self) -> None:
        """Run until ``stop``. Parks: ``read fd N``, while the loop is idle."""
        with beside_scheduler():
            try:
                super().run_forever()
            except Cancelled:
                self.silence_left_tasks()
                raise

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
            return self.run_task(standard.ensure_future(future, loop=self))

    def run_task(self, future: standard.Future[T]) -> T:
        """Run until the future is done; each cancel of the caller cancels it once, and is raised at its end."""
        cancelled_by: BaseException | None = None
        while True:
            try:
                return super().run_until_complete(future)
            except standard.CancelledError as error:
                if cancelled_by is None or not future.done():
                    raise
                raise cancelled_by from error
            except (Cancelled, Expired) as error:
                if future.done():
                    raise
                cancelled_by = error
                future.cancel()


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
            except (Cancelled, Expired) as error:
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
