"""The microthread: the class of a dhaga, with the dhaga's state, end, joins and result.

A dhaga is NEW until the hub (the loop's greenlet) starts it. Then it is RUNNABLE (in a run queue), RUNNING or WAITING
(in one park), and DONE at its end. The state is not stored: it follows from ``has_ended``, ``parked`` and the greenlet,
so that no two places can disagree. Not here: waiting (``waiter.py``), the choice of the next dhaga (``scheduler.py``),
and the report of errors (``uncaught.py``).
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
from .uncaught import UnseenError, call_excepthook, clear_own_frames, find_exit, interrupt_main, report

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    from .scheduler import Scheduler

    # The annotation ``Dhaga`` without a type argument means a dhaga whose result is Any.
    T = TypeVar("T", default=Any)
else:
    from typing import TypeVar

    T = TypeVar("T")

# Up to this number, void tickets (of joiners that have left) are kept. Above it, at most half of all tickets stay void.
COMPACT_ABOVE = 8

# The mark of a dhaga that has failed while callers waited for its result, so that the excepthook was not called.
WITHHELD = object()

next_ident = itertools.count(system.IDENTS_ABOVE + 1).__next__

NEW, RUNNABLE, RUNNING, WAITING, DONE = "NEW", "RUNNABLE", "RUNNING", "WAITING", "DONE"


# greenlet's names are hidden, because a program that switches greenlets itself would break the scheduler.
@show_only(
    *("name", "ident", "daemon", "state", "reason", "priority", "scheduler"),
    *("is_alive", "join", "result", "cancel", "wake"),
)
# greenlet is the first base, because its type checks search the bases: a later place would cost 4 % of a switch.
class Dhaga(greenlet, Waiter, Generic[T], GuardedTogether):
    """A microthread with the interface of ``threading.Thread``. ``spawn`` makes it and appends it to the run queue.

    A dhaga runs only in the OS thread of its scheduler; join, result, cancel and wake work from any thread. ``_value``
    and ``_error`` hold the outcome of the last wake, and at the end the outcome of the function. After an error,
    ``_trace`` is the traceback. ``_unseen`` is WITHHELD or an UnseenError if the error was kept from the excepthook for
    callers that wait for the result; otherwise it is None or unset.
    """

    __slots__ = (
        "_args", "_error", "_fn", "_joiners", "_kwargs", "_left_joiners", "_trace", "_unseen", "_value", "arrival",
        "daemon", "has_ended", "ident", "own_name", "own_priority", "park_reason", "parked", "parked_since",
        "pending_errors", "result_waiters", "scheduler", "thread_local_refs", "wait_target", "wake_queue",
    )  # fmt: skip

    # Whether the dhaga stands for a thread: in a thread, a program must not set signal handlers. The greenlets of
    # ``dhaga.compat`` stand for greenlets of gevent or eventlet, and not for threads.
    stands_for_thread: ClassVar[bool] = True

    # Whether the dhaga makes calls for a server or an executor. The Thread that ``current_thread()`` returns in such a
    # call is then not a daemon, as in a standard executor. Threads that the call starts inherit this setting.
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

    @compiled  # in C only for priority NORMAL and a plain function
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
        # The quick part of check_function: the flags of the code object reveal the most common mistakes.
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
        # The number of callers that wait for the result. They get the error, so the excepthook does not.
        self.result_waiters: int = 0
        self._joiners: list[Any] = []
        self.thread_local_refs: ThreadLocalRefs | None = None
        # The context is set here, because a new greenlet has an empty context.
        self.gr_context = copy_context() if context is None else context

    @property
    def name(self) -> str:
        """The given name, or ``dhaga-N``. May be set."""
        return self.own_name or f"dhaga-{self.ident}"

    @name.setter
    def name(self, name: str) -> None:
        self.own_name = name

    @property
    def state(self) -> str:
        """The state: NEW, RUNNABLE, RUNNING, WAITING or DONE. It may be outdated for a caller in another OS thread."""
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
        """The reason of the current park, such as ``queue.get``; None unless the dhaga is WAITING."""
        return self.park_reason if self.parked else None

    def __repr__(self) -> str:
        return f"<Dhaga {self.name} {self.state}{f' {self.reason}' if self.reason else ''}>"

    # Compiled for dhagas only: main code and OS threads use the Python functions.
    if not TYPE_CHECKING:  # type checkers see the inherited methods
        prepare_park = compiled(Waiter.prepare_park)
        park_within = compiled(Waiter.park_within)
        deliver_wake = compiled(Waiter.deliver_wake)
        wake_parked = compiled(Waiter.wake_parked)
        _expire = compiled(Waiter._expire)

    def is_alive(self) -> bool:
        """Return whether the dhaga has not ended yet."""
        return not self.has_ended

    @compiled  # in C only for a Python function without keyword arguments
    @calls_out
    def run(self, *_: object) -> None:
        """Call the function and end the dhaga. From: only the greenlet's first switch."""
        try:
            if self.pending_errors:
                raise self.pending_errors.pop(0)
            # No local variable refers to the arguments: _end() drops them.
            if self._kwargs:
                self._value = self._fn(*self._args, **self._kwargs)
            elif len(self._args) > 1:
                self._value = self._fn(*self._args)
            # A call without a star nests no evaluation loop on the C stack, which saves 430 bytes per parked dhaga.
            else:
                self._value = self._fn(self._args[0]) if self._args else self._fn()
        except BaseException as error:
            # The traceback is stored without this frame, whose `self` would make a cycle.
            self._fail(error, error.__traceback__ and error.__traceback__.tb_next)
        finally:
            # This is a finally block, because an excepthook may raise SystemExit.
            self._end()
            # A traceback may keep this frame, which must not keep the dhaga.
            del self

    def _fail(self, error: BaseException, trace: TracebackType | None) -> None:
        """Store and report the function's error. ``trace``: the function's part of the traceback."""
        error.with_traceback(trace)  # an assignment would fail if the error is a frozen dataclass
        try:
            self._report(error)
        finally:
            clear_own_frames(error)
            self._error, self._trace = error, error.__traceback__

    def _report(self, error: BaseException) -> None:
        """Pass an error to the main code, to the callers that wait for the result, or to ``dhaga.excepthook``."""
        if interrupt_main(self.scheduler, error) or isinstance(error, (Cancelled, GreenletExit)):
            return
        # The error is stored before the mark: a caller in another OS thread may report the error.
        self._error = error
        if self.result_waiters: self._unseen = WITHHELD; return  # atomic  # fmt: skip
        self._error = None  # a park of the excepthook would raise the error
        report(self, error)

    def is_own_error(self, error: BaseException) -> bool:
        """Return whether an error comes from the dhaga's own code, and not from a cancel, an exit or a Ctrl-C."""
        if isinstance(error, (Cancelled, Expired, GreenletExit)):
            return False
        exit = find_exit(error)
        return exit is None or (isinstance(exit, KeyboardInterrupt) and not self.scheduler.mode.is_interrupt(exit))

    def leave_result(self) -> None:
        """Stop waiting for the outcome without having seen it. The last waiting caller reports a withheld error."""
        if self._was_last_to_wait():
            assert self._error is not None
            call_excepthook(self, self._error)

    def hand_over_result(self) -> None:
        """Stop waiting for the outcome, because the caller has received this ended dhaga, and may read its result."""
        if self._was_last_to_wait():
            self._unseen = UnseenError(self)

    def _was_last_to_wait(self) -> bool:
        """Stop waiting for the outcome. Returns: whether an error was withheld and no other caller waits."""
        self.result_waiters -= 1  # atomic
        if getattr(self, "_unseen", None) is not WITHHELD:
            return False
        # Of several callers in different OS threads, exactly one is the last.
        if self._unseen is WITHHELD and not self.result_waiters: self._unseen = None; return True  # atomic  # fmt: skip
        return False

    def _seen_error(self) -> BaseException:
        """Return the error that ended the dhaga, and mark the error as seen.

        The original traceback is restored, because each ``raise`` makes the error's traceback longer.
        """
        assert self._error is not None
        unseen = getattr(self, "_unseen", None)
        if isinstance(unseen, UnseenError):
            unseen.error = None
        return self._error.with_traceback(getattr(self, "_trace", None))

    @compiled  # in C only for at most one joiner, without thread-locals
    def _end(self) -> None:
        """Drop the arguments and the dhaga's thread-locals, set the state to DONE, and wake the joiners."""
        # A finalizer of a dropped object may park, and a park uses the attributes that hold the outcome.
        value, error, self._error = self._value, self._error, None
        # Arguments may be large, and a program may keep the dhaga for its result.
        self._fn = self._args = self._kwargs = None  # type: ignore[assignment]
        for reference in self.thread_local_refs or ():
            mapping = reference()
            if mapping is not None:
                mapping.pop(self.ident, None)
        self._value, self._error = value, error
        self.has_ended = True
        self.scheduler.live.discard(self)
        if FREE_THREADED:
            fence(self._joiners)
        if self._joiners:
            self.release_joiners()

    def drop_at_end(self, reference: Any) -> None:
        """Register a function that returns a mapping or None. At its end, the dhaga removes itself from the mapping."""
        if self.thread_local_refs is None:
            self.thread_local_refs = ThreadLocalRefs()
        self.thread_local_refs.append(reference)

    def release_joiners(self) -> None:
        if len(self._joiners) > 1:
            # Joiners are woken in order of arrival, and pop() from the end takes O(1).
            self._joiners.reverse()
        while self._joiners:
            try:
                joiner = self._joiners.pop().pop()
            # The joiner has left, or another OS thread has popped the last ticket.
            except IndexError:
                continue
            # A joiner of several dhagas learns from the wake's value which dhaga has ended.
            joiner.deliver_wake(self)

    @compiled  # in C only without a timeout
    def wait_for_end(self, timeout: float | None) -> bool:
        """Park until the dhaga has ended. Returns: False after ``timeout`` seconds.

        Raises: RuntimeError if the dhaga waits for itself.
        """
        if getcurrent() is self:
            raise RuntimeError(f"{self!r} waits for its own end: that would never come")
        me = this_waiter()
        if timeout is not None:
            check_seconds(timeout)
            if timeout <= 0:
                return False
        me.prepare_park("join", self)
        self._joiners.append(me.parked)
        # The dhaga may have just ended in its own OS thread without waking this waiter.
        if self.has_ended:
            self.release_joiners()
        return me.park_within(timeout) is not TIMED_OUT

    def _remove(self, waiter: Waiter | None) -> None:
        """Count a joiner that leaves. Once most tickets are void, remove the void ones: amortized O(1) per joiner."""
        joiners = self._joiners
        self._left_joiners = left = getattr(self, "_left_joiners", 0) + 1
        if left > COMPACT_ABOVE and left * 2 > len(joiners):
            # This is a single call of C functions: no other OS thread runs between the check and the change.
            joiners[:] = filter(None, joiners)
            self._left_joiners = 0

    def _holders(self) -> list[object]:
        """Return the holder that a join waits for: the dhaga itself."""
        return [self]

    def _drop_joiner(self, joiner: FutureJoiner) -> None:
        if claim(joiner.ticket):
            self._remove(None)

    def join(self, timeout: float | None = None) -> None:
        """Wait until the dhaga has ended, or for ``timeout`` seconds. Call ``is_alive()`` to find out which came first.

        Parks: while the dhaga lives (``join``). From: a dhaga, main code, any OS thread. Raises: RuntimeError if the
        dhaga joins itself, or if a forked child joins a dhaga that stayed in the parent.
        """
        if self.has_ended:
            if isinstance(self._error, LeftBehind):
                raise self._error
            return
        self.wait_for_end(timeout)

    def result(self, timeout: float | None = None) -> T:
        """Wait for the dhaga's end, and return the function's value or raise the function's error (after a cancel,
        ``Cancelled``).

        Parks: while the dhaga lives (``join``). From: a dhaga, main code, any OS thread. Raises: TimeoutError.
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
            # The traceback refers to this frame, which would make a cycle.
            del self

    def __await__(self) -> Generator[Any, None, T]:
        """Wait for the result in a coroutine, on the scheduler's loop or another one.

        A cancel of the coroutine does not cancel the dhaga. Pass ``asyncio.ensure_future(dhaga)`` to a function that
        takes only Futures, such as ``asyncio.wait``. Raises: ParkError on a loop that would block the awaited dhaga.
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
            # A loop that runs in a dhaga of this scheduler would block the awaited dhaga.
            check_own_loop()
        joiner = FutureJoiner(asyncio.get_running_loop())
        self._joiners.append(joiner.ticket)
        joiner.future.add_done_callback(lambda _: self._drop_joiner(joiner))
        if self.has_ended:
            self.release_joiners()
        return joiner.future

    def cancel(self, reason: object = None) -> bool:
        """Raise ``Cancelled(reason)`` in the dhaga: at its current park, or else at its next park or its start.

        Parks: never. From: a dhaga, a callback, any OS thread. Returns: False if the dhaga has already ended.
        """
        if self.has_ended:
            return False
        # cancel_with() is called in the dhaga's own thread, so that the dhaga cannot run between the undo and the wake.
        return self.scheduler.call(self.cancel_with, Cancelled(reason))


say_foreign_names(Dhaga, OF_A_DHAGA)
