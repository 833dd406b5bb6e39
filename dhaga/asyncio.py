"""The standard ``asyncio.run`` and its relatives on dhagas: each event loop of a program runs where it was started.

A loop that a program has made is its own: to block, to close, to cancel all tasks of. So each dhaga that calls
``asyncio.run`` has one, the standard's over a selector that parks: while it has nothing to do, or a coroutine of it
blocks, others run. Its coroutines find the thread, the locals and the locks of whoever runs them.

Rejected: the scheduler's loop for all, where one coroutine that blocks would stop all dhagas (``dhaga.await_`` is the
door to that one); an OS thread for each, where the caller's locals and RLocks are another's, and no signals arrive.
Only a loop that waits in C, uvloop's, gets an OS thread, if a dhaga runs it, by ``run`` or a Runner.
"""

from __future__ import annotations

import asyncio as standard
import contextlib
import os
import signal
import sys
from asyncio import _set_running_loop
from collections.abc import Callable, Coroutine, Iterator
from contextvars import Context
from typing import Any, TypeVar

from greenlet import getcurrent

from .kernel import originals
from .kernel.api import spawn
from .kernel.errors import Cancelled, Expired
from .kernel.interrupts import on_ctrl_c
from .kernel.microthread import Dhaga
from .kernel.scheduler import Scheduler
from .kernel.waiting import here
from .local import local
from .offload import OffloadPool
from .selectors import DefaultSelector
from .threading import get_ident

__all__ = [
    *("DefaultEventLoopPolicy", "Runner", "SelectorEventLoop"),
    *("_get_running_loop", "get_event_loop", "get_running_loop", "run"),
]

T = TypeVar("T")

standard_running_loop = standard._get_running_loop  # taken before anybody can patch it
MAX_THREADS = 1000
"""Loops of other makes that run at once, each in an OS thread."""


# ---- who runs a loop


class Stay:
    """The time that somebody spends in a loop of the program, and the hooks that belong to those outside."""

    def __init__(self) -> None:
        self.hooks: tuple[Any, ...] = sys.get_asyncgen_hooks()


stays: dict[Scheduler, dict[Any, Stay]] = {}
"""Whoever runs a loop of the program, by scheduler."""


class Host(Scheduler):
    """A scheduler while some of its dhagas run loops of the program: an OS thread can show one loop at a time.

    A scheduler is turned into one, and back, so that parking costs nothing more where there are none.
    """

    __slots__ = ()
    hosts = True

    def park(self, me: Any) -> Any:
        stay = stays[self].get(me)
        if stay is None:
            return super().park(me)
        with self.outside(stay):
            return super().park(me)

    def let_others_run(self) -> None:
        stay = stays[self].get(self.main)
        if stay is None:
            return super().let_others_run()
        with self.outside(stay):
            return super().let_others_run()

    @contextlib.contextmanager
    def outside(self, stay: Stay) -> Iterator[None]:
        """Show, while somebody has parked, what is outside of his loop."""
        loop, hooks = standard_running_loop(), sys.get_asyncgen_hooks()
        _set_running_loop(loop_outside(self))
        sys.set_asyncgen_hooks(*stay.hooks)
        try:
            yield
        finally:
            stay.hooks = sys.get_asyncgen_hooks()
            sys.set_asyncgen_hooks(*hooks)
            _set_running_loop(loop)


def who_parks() -> Any:
    """Return who would park here: a dhaga, or the main code of a scheduler; None for a plain OS thread."""
    me = getcurrent()
    return me if isinstance(me, Dhaga) else here.main


def hosted(me: Any) -> bool:
    return me in stays.get(me.scheduler, ())


def begin_stay(me: Any) -> None:
    """Have others see nothing of what ``me`` runs."""
    scheduler = me.scheduler
    stays.setdefault(scheduler, {})[me] = Stay()
    scheduler.__class__ = Host


def end_stay(me: Any) -> None:
    """Have ``me`` be one of those others again. In a forked child it may have a new scheduler, and no stay there."""
    scheduler = me.scheduler
    if not hosted(me):
        return
    sys.set_asyncgen_hooks(*stays[scheduler].pop(me).hooks)
    if not stays[scheduler]:
        scheduler.__class__ = Scheduler
        del stays[scheduler]


@contextlib.contextmanager
def beside_scheduler() -> Iterator[None]:
    """Let the caller run a loop, although one runs in this OS thread: that of its scheduler."""
    me = who_parks()
    former = standard_running_loop()
    if me is None:
        try:
            yield
        finally:
            end_late_stay()
    elif hosted(me) or (former is not None and former is not me.scheduler.loop):
        yield  # it does so already, or is in a coroutine, where the standard refuses it
    else:
        begin_stay(me)
        _set_running_loop(None)
        try:
            yield
        finally:
            _set_running_loop(None if former is None else loop_outside(me.scheduler))
            end_stay(me)


def loop_outside(scheduler: Scheduler) -> Any:
    """Return the loop that dhagas show: that of their scheduler, once it runs."""
    return scheduler.loop if scheduler.loop.is_running() else None


def begin_late_stay() -> None:
    """Begin the stay of main code that has got its scheduler only after it had started the loop."""
    if here.main is not None and not isinstance(getcurrent(), Dhaga) and not hosted(here.main):
        begin_stay(here.main)
        stays[here.main.scheduler][here.main].hooks = None, None  # those of now are the loop's


def end_late_stay() -> None:
    if here.main is not None and hosted(here.main):
        end_stay(here.main)


class SelectorEventLoop(standard.SelectorEventLoop):
    """An event loop that parks while it has nothing to do. Source: ``asyncio.SelectorEventLoop``.

    A cancel, or a Timeout, of whoever runs it cancels what ``run_until_complete`` waits for, and is raised after that.
    """

    parks = True
    """It has no guests: dhagas that are spawned here belong to the scheduler of whoever runs it."""

    def __init__(self, selector: Any = None) -> None:
        super().__init__(Selector() if selector is None else selector)

    def run_forever(self) -> None:
        """Run until ``stop``. Parks: ``read fd N``, while there is nothing to do."""
        with beside_scheduler():
            try:
                super().run_forever()
            except Cancelled:
                self.be_left()
                raise

    def be_left(self) -> None:
        """Say nothing of the tasks that are left if a daemon has run them, which was cancelled at interpreter exit."""
        if getattr(getcurrent(), "daemon", False):
            for task in standard.all_tasks(self):
                task._log_destroy_pending = False  # type: ignore[attr-defined]

    def run_until_complete(self, future: Any) -> Any:
        """Run until a future is done. Parks: ``read fd N``, while there is nothing to do."""
        with beside_scheduler():
            if standard_running_loop() is not None or self.is_closed() or self.is_running():
                return super().run_until_complete(future)  # which refuses it
            return self.complete(standard.ensure_future(future, loop=self))

    def complete(self, future: standard.Future[T]) -> T:
        struck: BaseException | None = None
        while True:
            try:
                return super().run_until_complete(future)
            except standard.CancelledError as error:
                if struck is None or not future.done():
                    raise
                raise struck from error
            except (Cancelled, Expired) as error:
                if future.done():
                    raise
                struck = error
                future.cancel()


class Selector(DefaultSelector):  # type: ignore[misc]
    """What such a loop waits by."""

    def select(self, timeout: float | None = None) -> Any:
        begin_late_stay()
        return super().select(timeout)


# ---- asyncio.run


def run(main: Coroutine[Any, Any, T], *, debug: bool | None = None, loop_factory: Callable[[], Any] | None = None) -> T:
    """Run a coroutine on a loop made for it. Parks: while that has nothing to do. Source: ``asyncio.run``."""
    with beside_scheduler():
        if standard_running_loop() is not None:
            raise RuntimeError("asyncio.run() cannot be called from a running event loop")
        with Runner(debug=debug, loop_factory=loop_factory) as runner:
            return runner.run(main)


class Runner(standard.Runner):  # type: ignore[misc]
    """Runs coroutines one after the other on one loop. Parks: as ``run``. Source: ``asyncio.Runner``."""

    def run(self, coro: Coroutine[Any, Any, T], *, context: Context | None = None) -> Any:
        """Run a coroutine. A cancel of the caller cancels it, and is raised when it has ended."""
        with beside_scheduler(), default_ctrl_c():
            nested = standard_running_loop() is not None or not standard.iscoroutine(coro)
            if nested or not isinstance(getcurrent(), Dhaga) or getattr(self.get_loop(), "parks", False):
                return super().run(coro, context=context)
            return InThread(self.get_loop(), coro).run(super().run, context)


@contextlib.contextmanager
def default_ctrl_c() -> Iterator[None]:
    """Have the standard Runner find its own handler of Ctrl-C, in main code, and put ours back."""
    ours = not isinstance(getcurrent(), Dhaga) and signal.getsignal(signal.SIGINT) is on_ctrl_c
    if ours:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        if ours and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            signal.signal(signal.SIGINT, on_ctrl_c)


class InThread:
    """A coroutine on a loop that waits in C, run in an OS thread while a dhaga waits for it."""

    def __init__(self, loop: standard.AbstractEventLoop, coro: Coroutine[Any, Any, Any]) -> None:
        self.loop = loop
        self.coro = coro
        self.cancels = 0
        self.task: Any = None

    def run(self, run: Callable[..., Any], context: Context | None) -> Any:
        """Run it, by the ``run`` of a standard Runner. Parks: ``offload asyncio``."""
        runs = spawn(threads.finish, self.run_here, run, context, name="asyncio.run")
        struck: BaseException | None = None
        while True:
            try:
                return runs.result()
            except standard.CancelledError as error:
                raise (struck or error) from error
            except (Cancelled, Expired) as error:
                if runs.done:
                    raise
                struck = error
                with contextlib.suppress(RuntimeError):  # the loop is closed: it has ended
                    self.loop.call_soon_threadsafe(self.cancel)

    def run_here(self, run: Callable[..., Any], context: Context | None) -> Any:
        here.blocks = True
        try:
            return run(self.main(), context=context)
        finally:
            here.blocks = False

    async def main(self) -> Any:
        self.task = standard.current_task()
        for _ in range(self.cancels):
            self.task.cancel()
        return await self.coro

    def cancel(self) -> None:
        self.cancels += 1
        if self.task is not None:
            self.task.cancel()


threads = OffloadPool("asyncio", MAX_THREADS)


class BaseEventLoop(standard.BaseEventLoop):
    """How a loop tells calls from other threads, in debug mode: dhagas share the OS thread of their scheduler."""

    def _check_thread(self) -> None:
        if self._thread_id not in (None, get_ident(), originals.get_ident()):  # type: ignore[attr-defined]
            raise RuntimeError("Non-thread-safe operation invoked on an event loop other than the current one")


# ---- what is current


def _get_running_loop() -> Any:
    """Return the loop that runs, None if there is none; a scheduler's is none of the program's, within a dhaga."""
    loop = standard_running_loop()
    me = getcurrent()
    return None if isinstance(me, Dhaga) and loop is me.scheduler.loop else loop


def get_running_loop() -> Any:
    """Return the loop that runs. Raises: RuntimeError if there is none. Source: ``asyncio.get_running_loop``."""
    loop = _get_running_loop()
    if loop is None:
        raise RuntimeError("no running event loop")
    return loop


def get_event_loop() -> Any:
    """Return the loop that runs, else that of the policy. Source: ``asyncio.get_event_loop``."""
    loop = _get_running_loop()
    return standard.get_event_loop_policy().get_event_loop() if loop is None else loop


class Current(local):
    """The loop that somebody has set as the current one of its thread."""

    _loop = None
    _set_called = False


if sys.version_info < (3, 12):

    class PidfdWatcher(standard.ThreadedChildWatcher):
        """Waits for the ends of child processes without a thread, on whichever loop has started them."""

        def add_child_handler(self, pid: int, callback: Any, *args: Any) -> None:  # type: ignore[override]
            """Have ``callback(pid, exit code, *args)`` called when a child has ended."""
            loop, fd = get_running_loop(), os.pidfd_open(pid)
            loop.add_reader(fd, self.reap, loop, fd, pid, callback, args)

        def reap(self, loop: Any, fd: int, pid: int, callback: Callable[..., object], args: tuple[Any, ...]) -> None:
            loop.remove_reader(fd)
            os.close(fd)
            try:
                code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
            except ChildProcessError:  # somebody else has asked
                code = 255
            callback(pid, code, *args)


class DefaultEventLoopPolicy(standard.DefaultEventLoopPolicy):
    """Makes the loops, and keeps one for each dhaga. Source: ``asyncio.DefaultEventLoopPolicy``."""

    _loop_factory = SelectorEventLoop

    def __init__(self) -> None:
        super().__init__()
        self._local = Current()  # the standard's is of the OS thread; there is no public name for it
        if sys.version_info < (3, 12) and hasattr(os, "pidfd_open"):
            self.set_child_watcher(PidfdWatcher())  # later ones have such a one themselves
