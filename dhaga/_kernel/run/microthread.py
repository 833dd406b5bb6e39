"""The microthread: one dhaga, from NEW to DONE.

A dhaga is NEW until the hub starts it, RUNNABLE in a run queue, RUNNING, WAITING in one park, and DONE. The state is
stored nowhere: it follows from ``has_ended``, ``parked`` and the greenlet, so that no two places can disagree. How it
waits: ``waiter.py``; which one runs next: ``scheduler.py``; where its error goes: ``uncaught.py``.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Generator
from contextvars import Context, copy_context
from types import TracebackType
from typing import TYPE_CHECKING, Any, ClassVar, Generic

from greenlet import GreenletExit, getcurrent, greenlet

from ..errors import Cancelled, Expired, LeftBehind
from ..faces.arguments import NOT_PLAIN, check_function, check_seconds
from ..faces.foreign_names import OF_A_DHAGA, say_foreign_names, show_only
from ..fast.compiled import compiled
from ..interpreter.guards import GuardedTogether, fence
from ..interpreter.requirements import FREE_THREADED
from ..platform.system import system
from ..wait.cancellation import PendingErrors
from ..wait.current import check_own_loop, this_waiter
from ..wait.waiter import TIMED_OUT, Waiter, WaitTarget, claim
from .call_outs import calls_out
from .future_joiner import FutureJoiner
from .run_queues import NORMAL, Priority
from .thread_local_refs import ThreadLocalRefs
from .uncaught import UnseenError, call_excepthook, clear_own_frames, find_exit

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    from .scheduler import Scheduler

    # A Dhaga annotated without its type returns Any.
    T = TypeVar("T", default=Any)
else:
    from typing import TypeVar

    T = TypeVar("T")

# Void tickets of joiners that are always tolerated. Above this number, half of all tickets may be void.
COMPACT_ABOVE = 8

# A dhaga has failed while callers waited for its result: the excepthook was not called.
WITHHELD = object()

next_ident = itertools.count(system.IDENTS_ABOVE + 1).__next__

NEW, RUNNABLE, RUNNING, WAITING, DONE = "NEW", "RUNNABLE", "RUNNING", "WAITING", "DONE"


# Without greenlet's names: a switch by hand would break the scheduler.
@show_only(
    *("name", "ident", "daemon", "state", "reason", "priority", "scheduler"),
    *("is_alive", "join", "result", "cancel", "wake"),
)
# greenlet first: its own type checks walk the bases, 4 % of a switch.
class Dhaga(greenlet, Waiter, Generic[T], GuardedTogether):
    """A microthread with the face of ``threading.Thread``; made by ``spawn``, it starts at its place in the run queue.

    It lives and dies in the OS thread of its scheduler; join, result, cancel and wake work from any thread. ``_value``
    and ``_error`` hold the outcome of the last wake, and at the end the function's. After an error, ``_trace`` is its
    traceback, and ``_unseen`` is WITHHELD or an UnseenError if the hook was not called.
    """

    __slots__ = (
        "_args", "_error", "_fn", "_joiners", "_kwargs", "_left_joiners", "_trace", "_unseen", "_value", "arrival",
        "daemon", "has_ended", "ident", "own_name", "own_priority", "park_reason", "parked", "parked_since",
        "pending_errors", "result_waiters", "scheduler", "thread_local_refs", "wait_target", "wake_queue",
    )  # fmt: skip

    # Whether it is a program's thread, in which signal handlers must not be set. Greenlets of compat belong to a
    # package's thread interface.
    stands_for_thread: ClassVar[bool] = True

    # Whether it makes calls for a server or an executor, whose threads are not daemons: threads that a call starts are
    # none either, and the exit joins them, although it does not join this dhaga.
    makes_calls: ClassVar[bool] = False

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
        # A compiled __init__ would hide the signature of the class from inspect.
        self.set_up_dhaga(scheduler, fn, args, kwargs, name, daemon, context, priority)

    @compiled  # C: priority NORMAL; a plain function
    def set_up_dhaga(
        self,
        scheduler: Scheduler,
        fn: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any] | None,
        name: str | None,
        daemon: bool,
        context: Context | None,
        priority: Priority,
    ) -> None:
        # The quick part of check_function: one look at the code object finds the usual mistakes.
        code = getattr(fn, "__code__", None)
        if not hasattr(scheduler, "run_queue"):
            raise TypeError("a Dhaga is made by spawn: dhaga.spawn(fn, *args), and not dhaga.Dhaga(fn, *args)")
        if (code is None and not callable(fn)) or (code is not None and code.co_flags & NOT_PLAIN):
            check_function(fn, "spawn")
        self.wake_queue: Any = scheduler.run_queue if priority is NORMAL else scheduler._queue_of(priority)
        self.scheduler: Scheduler = scheduler
        self.own_priority: Priority = priority
        self._fn: Any = fn
        self._args = args
        self._kwargs = kwargs
        self.ident: int = next_ident()
        self.own_name = name
        self.daemon: bool = daemon
        self.parked: list[Any] = []
        self.pending_errors: PendingErrors = ()  # type: ignore[assignment]
        self.park_reason: str = ""
        self.arrival: int = 0
        self.wait_target: WaitTarget | None = None
        self._value = None
        self._error = None
        self.parked_since: float = 0.0
        self.has_ended: bool = False
        # The number of callers that wait in result(): they will see the error, so the excepthook is not called.
        self.result_waiters: int = 0
        self._joiners: list[Any] = []
        self.thread_local_refs: ThreadLocalRefs | None = None
        # A new greenlet starts with an empty context.
        self.gr_context = copy_context() if context is None else context

    @property
    def name(self) -> str:
        """The name given, or ``dhaga-N``; may be set."""
        return self.own_name or f"dhaga-{self.ident}"

    @name.setter
    def name(self, name: str) -> None:
        self.own_name = name

    @property
    def state(self) -> str:
        """NEW, RUNNABLE, RUNNING, WAITING or DONE; from another OS thread a snapshot."""
        if self.has_ended:
            return DONE
        if self.parked:
            return WAITING
        if self is getcurrent():
            return RUNNING
        # A greenlet is true between its first switch and its end.
        if not self:
            return NEW
        return RUNNING if self.gr_frame is None else RUNNABLE

    @property
    def reason(self) -> str | None:
        """The reason of its wait, such as ``queue.get``; None unless it is WAITING."""
        return self.park_reason if self.parked else None

    def __repr__(self) -> str:
        return f"<Dhaga {self.name} {self.state}{f' {self.reason}' if self.reason else ''}>"

    # Compiled for dhagas only: main code and OS threads use the Python functions.
    if not TYPE_CHECKING:  # type checkers see the inherited ones
        prepare_park = compiled(Waiter.prepare_park)
        park_within = compiled(Waiter.park_within)
        deliver_wake = compiled(Waiter.deliver_wake)
        wake_parked = compiled(Waiter.wake_parked)
        _expire = compiled(Waiter._expire)

    def is_alive(self) -> bool:
        """Return whether the dhaga has not ended yet."""
        return not self.has_ended

    @compiled  # C: a Python function, no keyword arguments
    @calls_out
    def run(self, *_: object) -> None:
        """Call the function and end. From: the greenlet's first switch, never by hand."""
        try:
            if self.pending_errors:
                raise self.pending_errors.pop(0)
            args, kwargs = self._args, self._kwargs
            if kwargs:
                self._value = self._fn(*args, **kwargs)
            elif len(args) > 1:
                self._value = self._fn(*args)
            # A call without a star nests no evaluation loop on the C stack: a parked dhaga takes 430 bytes less.
            else:
                self._value = self._fn(args[0]) if args else self._fn()
        except BaseException as error:
            # Without this frame: its `self` would make a cycle.
            self._fail(error, error.__traceback__ and error.__traceback__.tb_next)
        finally:
            # In a finally: an excepthook may raise SystemExit.
            self._end()
            # Tracebacks lead to this frame.
            del self

    def _fail(self, error: BaseException, trace: TracebackType | None) -> None:
        """Keep and report the function's error. ``trace``: the function's part of the traceback."""
        error.with_traceback(trace)  # a frozen dataclass refuses an assignment
        self._error = error
        self._report(error)
        clear_own_frames(error)
        self._trace = error.__traceback__

    def _report(self, error: BaseException) -> None:
        """Pass an error to the main code, to the callers that wait for the result, or to ``dhaga.excepthook``."""
        exit = find_exit(error)
        if exit is not None:
            self.scheduler.mode.interrupt(exit)
        if exit is error or isinstance(error, (Cancelled, GreenletExit)):
            return
        if self.result_waiters: self._unseen = WITHHELD; return  # atomic  # fmt: skip
        call_excepthook(self, error)

    def is_own_error(self, error: BaseException) -> bool:
        """Return whether an error ends only this dhaga, as in a thread: no cancel, no exit and no Ctrl-C does."""
        if isinstance(error, (Cancelled, Expired, GreenletExit)):
            return False
        exit = find_exit(error)
        return exit is None or (isinstance(exit, KeyboardInterrupt) and not self.scheduler.mode.is_interrupt(exit))

    def leave_result(self) -> None:
        """Stop waiting for the outcome without having seen it. The last one to leave passes on the withheld error."""
        if self._was_last_to_wait():
            assert self._error is not None
            call_excepthook(self, self._error)

    def hand_over_result(self) -> None:
        """Stop waiting for the outcome: the caller has got this dhaga, which has ended, and may read its result."""
        if self._was_last_to_wait():
            self._unseen = UnseenError(self)

    def _was_last_to_wait(self) -> bool:
        """Stop waiting for the outcome. Returns: whether an error was withheld, and no other caller waits for it."""
        self.result_waiters -= 1  # atomic
        if getattr(self, "_unseen", None) is not WITHHELD:
            return False
        # Of two callers in several OS threads, one is the last.
        if self._unseen is WITHHELD and not self.result_waiters: self._unseen = None; return True  # atomic  # fmt: skip
        return False

    def _seen_error(self) -> BaseException:
        """Return the error that ended the dhaga, with its original traceback; it counts as seen now.

        Otherwise the traceback would grow with each ``raise``.
        """
        assert self._error is not None
        unseen = getattr(self, "_unseen", None)
        if isinstance(unseen, UnseenError):
            unseen.error = None
        return self._error.with_traceback(getattr(self, "_trace", None))

    @compiled  # C: one joiner at most, no thread-locals
    def _end(self) -> None:
        """Become DONE, wake the joiners and drop the dhaga's thread-locals."""
        self.has_ended = True
        # Arguments may be large, and the dhaga is kept for its result.
        self._fn = self._args = self._kwargs = None  # type: ignore[assignment]
        self.scheduler.live.discard(self)
        if FREE_THREADED:
            fence(self._joiners)
        if self._joiners:
            self.release_joiners()
        if self.thread_local_refs is not None:
            self._drop_thread_locals(self.thread_local_refs)

    def drop_at_end(self, reference: Any) -> None:
        """Register a mapping, by a weak reference, that holds something under this ident, to be dropped at the end."""
        if self.thread_local_refs is None:
            self.thread_local_refs = ThreadLocalRefs()
        self.thread_local_refs.append(reference)

    def _drop_thread_locals(self, references: list[Any]) -> None:
        for reference in references:
            mapping = reference()
            if mapping is not None:
                mapping.pop(self.ident, None)

    def release_joiners(self) -> None:
        if len(self._joiners) > 1:
            # First come, first served, and pop() from the end is O(1).
            self._joiners.reverse()
        while self._joiners:
            try:
                joiner = self._joiners.pop().pop()
            # The joiner has left, or another OS thread took the last one.
            except IndexError:
                continue
            # A joiner of several learns from the value which one has ended.
            joiner.deliver_wake(self)

    @compiled  # C: no timeout
    def wait_for_end(self, timeout: float | None) -> bool:
        """Park until the dhaga has ended. Returns: False after ``timeout`` seconds. Raises: RuntimeError on itself."""
        if getcurrent() is self:
            raise RuntimeError(f"{self!r} waits for its own end: that would never come")
        me = this_waiter()
        if timeout is not None:
            check_seconds(timeout)
            if timeout <= 0:
                return False
        me.prepare_park("join", self)
        self._joiners.append(me.parked)
        # The dhaga has just ended in its own OS thread, and may have missed this waiter.
        if self.has_ended:
            self.release_joiners()
        return me.park_within(timeout) is not TIMED_OUT

    def _remove(self, waiter: Waiter | None) -> None:
        """Count a joiner that is about to leave. Once half have left their tickets are dropped: O(1) each in all."""
        joiners = self._joiners
        self._left_joiners = left = getattr(self, "_left_joiners", 0) + 1
        if left > COMPACT_ABOVE and left * 2 > len(joiners):
            # One call of C functions: no other OS thread runs between the check and the change.
            joiners[:] = filter(None, joiners)
            self._left_joiners = 0

    def _holders(self) -> list[object]:
        """Return the holder that a join waits for: the dhaga itself."""
        return [self]

    def _drop_joiner(self, joiner: FutureJoiner) -> None:
        if claim(joiner.ticket):
            self._remove(None)

    def join(self, timeout: float | None = None) -> None:
        """Wait until the dhaga has ended; ``is_alive()`` tells if a ``timeout`` (seconds) came first.

        Parks: while it lives (``join``). From: a dhaga, main code, any OS thread. Raises: RuntimeError on itself, and
        in a forked child on a dhaga that stayed in the parent.
        """
        if self.has_ended:
            if isinstance(self._error, LeftBehind):
                raise self._error
            return
        self.wait_for_end(timeout)

    def result(self, timeout: float | None = None) -> T:
        """Wait for the end and return the function's value, or raise its exception (``Cancelled`` if it was cancelled).

        Parks: while it lives (``join``). From: a dhaga, main code, any OS thread. Raises: TimeoutError.
        """
        if not self.has_ended:
            self.result_waiters += 1  # atomic
            try:
                if not self.wait_for_end(timeout):
                    raise TimeoutError(f"{self!r} has not ended")
            except BaseException:
                self.leave_result()
                raise
        if self._error is None:
            return self._value  # type: ignore[no-any-return]
        try:
            raise self._seen_error()
        finally:
            # The traceback holds this frame: that would be a cycle.
            del self

    def __await__(self) -> Generator[Any, None, T]:
        """Wait for the result in a coroutine, of this loop or another one.

        A cancel of the coroutine does not cancel the dhaga. For calls that take only Futures, as ``asyncio.wait`` does:
        ``asyncio.ensure_future(dhaga)``. Raises: ParkError on a loop that a dhaga runs and that would block this one.
        """
        if not self.has_ended:
            self.result_waiters += 1  # atomic
            try:
                yield from self._future().__await__()
            except BaseException:
                self.leave_result()
                raise
        if self._error is None:
            return self._value  # type: ignore[no-any-return]
        try:
            raise self._seen_error()
        finally:
            del self

    def _future(self) -> asyncio.Future[Any]:
        if getattr(getcurrent(), "scheduler", None) is self.scheduler:
            # The loop runs in a dhaga, and would block this one's OS thread.
            check_own_loop()
        joiner = FutureJoiner(asyncio.get_running_loop())
        self._joiners.append(joiner.ticket)
        joiner.future.add_done_callback(lambda _: self._drop_joiner(joiner))
        if self.has_ended:
            self.release_joiners()
        return joiner.future

    def cancel(self, reason: object = None) -> bool:
        """Make the dhaga raise ``Cancelled(reason)`` at its park; unless it waits, at its next park or its start.

        Parks: never. From: a dhaga, a callback, any OS thread. Returns: False if it has ended already.
        """
        if self.has_ended:
            return False
        # In the dhaga's own thread, so that it cannot run between the undo and the wake.
        return self.scheduler.call(self.cancel_with, Cancelled(reason))


say_foreign_names(Dhaga, OF_A_DHAGA)
