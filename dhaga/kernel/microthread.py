"""The microthread: one dhaga, from NEW to DONE. How it waits: ``waiter.py``; who runs next: ``scheduler.py``."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import sys
from asyncio import _get_running_loop, _set_running_loop
from collections.abc import Callable, Generator
from contextvars import Context, copy_context
from inspect import CO_COROUTINE
from threading import ExceptHookArgs
from typing import TYPE_CHECKING, Any, Generic

from greenlet import GreenletExit, getcurrent, greenlet

from . import originals
from .errors import Cancelled, LeftBehind
from .priorities import NORMAL, Priority
from .waiter import Waiter
from .waiting import this_waiter

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    from .scheduler import Scheduler

    T = TypeVar("T", default=Any)  # a Dhaga that is not said to return anything returns Any
else:
    from typing import TypeVar

    T = TypeVar("T")

logger = logging.getLogger("dhaga")
count = itertools.count(1).__next__
OWN = f"{__name__.partition('.')[0]}."
"""How the names of this package's modules begin."""


NEW, RUNNABLE, RUNNING, WAITING, DONE = "NEW", "RUNNABLE", "RUNNING", "WAITING", "DONE"


class Dhaga(greenlet, Waiter, Generic[T]):  # greenlet first: its own type checks walk the bases, 4 % of a switch
    """A microthread with the face of ``threading.Thread``; made by ``spawn``, it starts when its turn comes.

    It lives and dies in the OS thread of its scheduler; join, result, cancel and wake work from any thread. ``value``
    and ``fault`` are what the last wake brought, and in the end what the function returned or raised.
    """

    __slots__ = (
        "args",
        "asked",
        "daemon",
        "done",
        "fault",
        "fn",
        "given_name",
        "ident",
        "joiners",
        "keepsakes",
        "kwargs",
        "parked",
        "pending",
        "place",
        "queue",
        "rank",
        "scheduler",
        "since",
        "value",
    )

    def __init__(
        self,
        scheduler: Scheduler,
        fn: Callable[..., Any],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
        name: str | None = None,
        daemon: bool = False,
        context: Context | None = None,
        priority: Priority = NORMAL,
    ) -> None:
        code = getattr(fn, "__code__", None)
        if (code is None and not callable(fn)) or (code is not None and code.co_flags & CO_COROUTINE):
            refuse(fn)
        self.queue = scheduler.ready if priority is NORMAL else scheduler.queue_of(priority)
        self.scheduler = scheduler
        self.rank = priority
        self.fn: Any = fn
        self.args = args
        self.kwargs = kwargs
        self.ident = count()
        self.given_name = name
        self.daemon = daemon
        self.parked = []
        self.pending = ()  # type: ignore[assignment]
        self.place = None
        self.value = None
        self.fault = None
        self.since = 0.0
        self.done = False
        self.asked = 0  # how many wait in result(): they will see the error
        self.joiners: list[Any] = []
        self.keepsakes: list[Any] | None = None  # weak references to mappings that keep something under this ident
        self.gr_context = copy_context() if context is None else context

    @property
    def name(self) -> str:
        """The name given, or ``dhaga-N``; may be set."""
        return self.given_name or f"dhaga-{self.ident}"

    @name.setter
    def name(self, name: str) -> None:
        self.given_name = name

    @property
    def state(self) -> str:
        """NEW, RUNNABLE, RUNNING, WAITING or DONE; from another OS thread a snapshot."""
        if self.done:
            return DONE
        if self.parked:
            return WAITING
        if self is getcurrent():
            return RUNNING
        if not self:  # a greenlet is true between its first switch and its end
            return NEW
        return RUNNING if self.gr_frame is None else RUNNABLE

    @property
    def reason(self) -> str | None:
        """What the dhaga waits for, such as ``queue.get``; None unless it is WAITING."""
        try:
            return self.parked[0]
        except IndexError:
            return None

    def __repr__(self) -> str:
        return f"<Dhaga {self.name} {self.state}{f' {self.reason}' if self.reason else ''}>"

    def is_alive(self) -> bool:
        """Tell whether the dhaga has not ended yet."""
        return not self.done

    def run(self, *_: object) -> None:
        """Call the function and end; entered by the first switch, never by hand."""
        try:
            if self.pending:
                raise self.pending.pop(0)
            args, kwargs = self.args, self.kwargs
            if kwargs:
                self.value = self.fn(*args, **kwargs)
            elif len(args) > 1:
                self.value = self.fn(*args)
            else:  # a call without a star nests no evaluation loop on the C stack: 430 bytes less of a parked dhaga
                self.value = self.fn(args[0]) if args else self.fn()
        except BaseException as error:
            if error.__traceback__ is not None:  # without this frame, whose `self` would make a cycle
                error.__traceback__ = error.__traceback__.tb_next
            self.fault = error
            self.report(error)
            forget_own_frames(error)
        finally:  # an excepthook may raise SystemExit
            self.end()
            del self  # tracebacks lead to this frame

    def report(self, error: BaseException) -> None:
        """Bring an error to whom it belongs: the main code, those who wait for the result, or ``dhaga.excepthook``."""
        exit = exit_in(error)
        if exit is not None:
            self.scheduler.life.interrupt(exit)
        if exit is not error and not (self.asked or isinstance(error, (Cancelled, GreenletExit))):
            tell_excepthook(self, error)

    def end(self) -> None:
        self.done = True
        self.fn = self.args = self.kwargs = None  # type: ignore[assignment]
        self.scheduler.live.discard(self)
        if self.joiners:
            self.release_joiners()
        if self.keepsakes is not None:
            self.drop_keepsakes(self.keepsakes)

    def keep(self, reference: Any) -> None:
        """Have what ``reference()`` keeps under this ident dropped at the end."""
        if self.keepsakes is None:
            self.keepsakes = []
        self.keepsakes.append(reference)

    def drop_keepsakes(self, references: list[Any]) -> None:
        for reference in references:
            mapping = reference()
            if mapping is not None:
                mapping.pop(self.ident, None)

    def release_joiners(self) -> None:
        if len(self.joiners) > 1:
            self.joiners.reverse()
        while self.joiners:
            try:
                waiter = self.joiners.pop()
            except IndexError:  # another OS thread took the last one
                return
            waiter.unpark(True)

    def wait_for_end(self, timeout: float | None) -> None:
        me: Any = getcurrent()
        try:
            pending = me.pending
        except AttributeError:  # not a dhaga
            me = this_waiter()
            pending = me.pending
        if me is self:
            raise RuntimeError(f"{self!r} waits for its own end: that would never come")
        if timeout is not None and timeout <= 0:
            raise TimeoutError(f"{self!r} has not ended")
        if pending:  # prepare(), written out
            raise pending.pop(0)
        me.place = self
        me.parked.append("join")
        self.joiners.append(me)
        if self.done:  # it ended in its own OS thread just now, and may have missed this waiter
            self.release_joiners()
        me.park(timeout)

    def remove(self, waiter: Waiter) -> None:
        """Undo a join."""
        self.joiners.remove(waiter)

    def drop_joiner(self, joiner: FutureJoiner) -> None:
        if joiner in self.joiners:
            self.joiners.remove(joiner)

    def join(self, timeout: float | None = None) -> None:
        """Wait until the dhaga has ended, whichever way; ``is_alive()`` tells if a ``timeout`` (seconds) came first.

        Parks: while it lives (``join``). From: a dhaga, main code, any OS thread.
        Raises: RuntimeError on itself, and in a forked child on what stayed in the parent.
        """
        if self.done:
            if isinstance(self.fault, LeftBehind):
                raise self.fault
            return
        try:  # contextlib.suppress would cost 5 % of spawn + join
            self.wait_for_end(timeout)
        except TimeoutError:
            pass

    def result(self, timeout: float | None = None) -> T:
        """Wait for the end and return the function's value, or raise its exception (``Cancelled`` if it was cancelled).

        Parks: while it lives (``join``). From: a dhaga, main code, any OS thread. Raises: TimeoutError.
        """
        if not self.done:
            self.asked += 1
            try:
                self.wait_for_end(timeout)
            finally:
                self.asked -= 1
        if self.fault is None:
            return self.value  # type: ignore[no-any-return]
        try:
            raise self.fault
        finally:
            del self  # the traceback holds this frame: that would be a cycle

    def __await__(self) -> Generator[Any, None, T]:
        """Wait for the result in a coroutine, of this loop or another one; the coroutine's cancel leaves the dhaga
        alone.
        """
        self.asked += 1
        try:
            if not self.done:
                yield from self.future().__await__()
        finally:
            self.asked -= 1
        if self.fault is None:
            return self.value  # type: ignore[no-any-return]
        try:
            raise self.fault
        finally:
            del self

    def future(self) -> asyncio.Future[Any]:
        joiner = FutureJoiner(asyncio.get_running_loop())
        self.joiners.append(joiner)
        joiner.future.add_done_callback(lambda _: self.drop_joiner(joiner))
        if self.done:
            self.release_joiners()
        return joiner.future

    def cancel(self, reason: object = None) -> bool:
        """Make the dhaga raise ``Cancelled(reason)`` at its park; if it does not wait, at its next park or its start.

        Parks: never. From: a dhaga, a callback, any OS thread. Returns: False if it has ended already.
        """
        if self.done:
            return False
        return self.scheduler.call(self.interrupt, Cancelled(reason))


def exit_in(error: BaseException) -> BaseException | None:
    """Return what ends the program: a SystemExit or KeyboardInterrupt, alone or in the group of a scope."""
    if isinstance(error, BaseExceptionGroup):
        return next(filter(None, map(exit_in, error.exceptions)), None)
    return error if isinstance(error, (SystemExit, KeyboardInterrupt)) else None


def forget_own_frames(error: BaseException | None) -> None:
    """Clear the frames of this package in tracebacks: they refer to the dhaga whose fault this is, which is a cycle."""
    while error is not None:
        if isinstance(error, BaseExceptionGroup):
            for each in error.exceptions:
                forget_own_frames(each)
        trace = error.__traceback__
        while trace is not None:
            if trace.tb_frame.f_globals.get("__name__", "").startswith(OWN):
                with contextlib.suppress(RuntimeError):  # it still runs
                    trace.tb_frame.clear()
            trace = trace.tb_next
        error = error.__context__


def refuse(fn: object) -> None:
    """Raises: TypeError, with what to do, for what cannot be the function of a dhaga."""
    if asyncio.iscoroutine(fn):
        if not getattr(fn, "cr_suspended", True):
            fn.close()  # it is not to warn besides that it was never awaited
        raise TypeError(f"spawn needs a function to call, not {fn!r}: in a dhaga call await_(coroutine)")
    if not callable(fn):
        raise TypeError(f"spawn needs a function to call, not {fn!r}: spawn(fn, *args), not spawn(fn(*args))")
    raise TypeError(
        f"{fn!r} is a coroutine function, and a dhaga calls plain ones: call await_ or run_in_dhaga, "
        "dhaga.await_(fn(...)) in a dhaga for a coroutine, dhaga.aio.run_in_dhaga(fn, ...) in a coroutine for a dhaga"
    )


class FutureJoiner:
    """A coroutine that awaits a dhaga: waking it resolves a Future on the coroutine's own loop."""

    __slots__ = ("future", "loop")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.future: asyncio.Future[Any] = loop.create_future()

    def unpark(self, value: object = None) -> bool:
        try:
            self.loop.call_soon_threadsafe(self.resolve, value)
        except RuntimeError:  # the loop is closed: nobody awaits any more
            return False
        return True

    def resolve(self, value: object) -> None:
        if not self.future.done():
            self.future.set_result(value)


class Main(Waiter):
    """The main code of an OS thread that has a scheduler: it parks and is woken as a dhaga, but nobody started it."""

    __slots__ = (
        "fault",
        "greenlet",
        "ident",
        "name",
        "parked",
        "pending",
        "place",
        "queue",
        "rank",
        "scheduler",
        "since",
        "summons",
        "switch",
        "value",
    )

    def __init__(self, scheduler: Scheduler) -> None:
        self.summons: Any = None  # a Summons, once a signal has come; see kernel/summons.py
        self.belong(scheduler, NORMAL)
        self.greenlet = getcurrent()
        self.switch = self.greenlet.switch  # what the run queue calls; see kernel/scheduler.py
        self.ident = originals.get_ident()
        self.name = self.greenlet.name = "main code"  # type: ignore[attr-defined]
        self.parked = []
        self.pending = []
        self.place = None
        self.value = None
        self.fault = None
        self.since = 0.0

    def __repr__(self) -> str:
        return f"<Main code of {self.scheduler.name} {'WAITING ' + self.parked[0] if self.parked else 'RUNNING'}>"

    def park(self, timeout: float | None = None) -> Any:
        """Park as a dhaga does; the handlers of signals that come meanwhile are called here, by ``Summons``."""
        scheduler = self.scheduler
        self.since = scheduler.clock()
        entry = None if timeout is None else scheduler.timers.add(self.since + timeout, self)
        try:
            while self.let_others_run():
                self.summons.interrupt_park()
        finally:
            if entry is not None:
                scheduler.timers.discard(entry)
        if self.summons is not None:
            self.summons.end_park()
        if self.fault is not None:
            self.throw_fault()
        value, self.value = self.value, None
        return value

    def let_others_run(self) -> bool:
        """Give the thread away, with its running loop; tell whether nobody woke this, but a signal came.

        The loop runs on in another greenlet; main code that calls ``asyncio.run`` must not be told that one is running.
        """
        loop, former = self.scheduler.loop, _get_running_loop()
        _set_running_loop(loop if loop.is_running() else None)
        try:
            self.scheduler.let_others_run()
        finally:
            _set_running_loop(former)
        return self.summons is not None and self.summons.delivered()


def excepthook(args: ExceptHookArgs) -> None:
    """Log an error that ended a dhaga: the default of ``dhaga.excepthook``, which may be replaced by assignment.

    ``args`` is what ``threading.excepthook`` gets: exc_type, exc_value, exc_traceback, and the dhaga as ``thread``.
    """
    name = args.thread.name if args.thread is not None else "a dhaga"
    info = (args.exc_type, args.exc_value or args.exc_type(), args.exc_traceback)
    logger.error("%s ended by an error that nobody handled", name, exc_info=info)


def tell_excepthook(thread: Any, error: BaseException) -> None:
    hook = getattr(sys.modules["dhaga"], "excepthook", excepthook)  # looked up late: users assign to it
    try:
        hook(ExceptHookArgs((type(error), error, error.__traceback__, thread)))
    except Exception:
        logger.exception("dhaga.excepthook failed on %r of %s", error, thread.name)
