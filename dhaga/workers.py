"""Worker dhagas: they take submitted calls off one backlog, on one scheduler or several, and are reused.

*Who is told of a new call.* Whoever submits puts it into the backlog first, and then looks for a crew to call; a worker
that finds nothing stands among the idle first, and then looks at the backlog once more: so neither misses the other. A
crew is ``called`` from there until its worker has started; it needs no second call, as that one looks at the backlog
when it starts, and calls the next one if it leaves something there.

Not here: what comes of a call (``futures.py``), and the OS threads (``pool.py``).
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import inspect
import os
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterable
from contextvars import Context, copy_context
from typing import TYPE_CHECKING, Any, TypeAlias

from .kernel import originals
from .kernel.errors import Cancelled
from .kernel.exit import interrupted
from .kernel.microthread import Dhaga
from .kernel.scheduler import Scheduler
from .kernel.waiting import WaitQueue
from .semaphores import Semaphore

if TYPE_CHECKING:
    from .futures import Future

guard = originals.RLock()
"""Held for some steps, which never park, whenever calls are taken and states of futures change, and during a fork.

One for all: the standard Future has a lock and a Condition of its own, which costs more than all the rest of a call.
"""

IDLE_SECONDS = 10.0
"""A worker without a call ends after this."""


Call: TypeAlias = "tuple[Future[Any], Callable[..., Any], tuple[Any, ...], dict[str, Any], Context]"


class CallCancelled(Cancelled):
    """Tells a call to end, but not the worker that makes it."""


class Worker(Dhaga):
    """A dhaga that makes calls, one after the other. ``making``: the future of the one that it makes now."""

    __slots__ = ("crew", "making", "number")

    def __init__(self, crew: Crew, number: int) -> None:
        name = f"{crew.scheduler.name}-worker-{number}"
        super().__init__(crew.scheduler, crew.work, (self,), None, name, daemon=not at_exit, context=Context())
        self.crew = crew
        self.number = number
        self.making: Future[Any] | None = None

    def make(self, call: Call) -> None:
        """Make a call that has begun, and tell its future."""
        future, fn, args, kwargs, context = call
        self.gr_context = context  # Context.run would nest an evaluation loop, which each switch then copies
        try:
            value = fn(*args, **kwargs) if kwargs or len(args) > 1 else fn(args[0]) if args else fn()
        except BaseException as error:
            self.fail(future, error)
        else:
            if not self.crew.staff.gone:
                future.set_result(value)
        finally:
            del call, future  # the frames of an error lead to this one: that would be a cycle

    def fail(self, future: Future[Any], error: BaseException) -> None:
        """Pass on an error of the call; raise it if it is the worker's, too."""
        if self.crew.staff.gone:
            raise error
        if not isinstance(error, Cancelled):
            if error.__traceback__ is not None:  # make() is nothing to the reader
                error.__traceback__ = error.__traceback__.tb_next
            future.set_exception(error)
            return
        future.end_cancelled()
        if not isinstance(error, CallCancelled):
            raise error

    def cancel_call(self, future: Future[Any]) -> None:
        """Raise Cancelled in a call, if the worker still makes it; in the worker's OS thread."""
        if self.making is future:
            self.interrupt(CallCancelled("its future was cancelled"))

    def forget_cancels(self) -> None:
        """Drop what was meant for the call before, and came too late for it. Raises: what is for the worker."""
        self.pending = [error for error in self.pending if not isinstance(error, CallCancelled)]
        if self.pending:
            raise self.pending.pop(0)

    def end(self) -> None:
        crew = self.crew
        crew.replace(self)
        super().end()
        crew.rest_if_over()


class Crew:
    """The workers of one scheduler: at most so many, those without a call in ``idle``, the last one first."""

    def __init__(self, staff: Staff, scheduler: Scheduler, limit: int, owned: bool) -> None:
        self.staff = staff
        self.scheduler = scheduler
        self.owned = owned
        self.called = False
        self.idle = WaitQueue(self, "pool.idle")
        self.room = deque(range(limit, 0, -1))  # numbers of workers not hired; to take one is atomic
        self.workers: set[Worker] = set()

    def __repr__(self) -> str:
        return f"<Crew on {self.scheduler.name}, {len(self.workers)} workers, {len(self.idle)} idle>"

    def at_work(self) -> int:
        """Return how many workers have a call; about, if another OS thread is asked about."""
        return len(self.workers) - len(self.idle)

    def call_one(self) -> None:
        """Have one more worker look at the backlog, if there is one without a call. From: any thread."""
        try:
            if self.idle:
                worker = self.idle.pop()
                self.called = True
                worker.unpark()
            elif self.room:
                self.hire(self.room.pop())
        except IndexError:  # another OS thread took the last one: a worker has been called
            pass

    def hire(self, number: int) -> None:
        worker = Worker(self, number)
        self.workers.add(worker)
        self.called = True
        try:
            self.scheduler.admit(worker)
        except BaseException as error:
            if isinstance(error, RuntimeError) or worker not in self.scheduler.live:  # after a Ctrl-C it may be coming
                self.scheduler.live.discard(worker)
                self.workers.discard(worker)
                self.called = False
                self.room.append(number)
            raise

    def work(self, me: Worker) -> None:
        """Take calls until there are none for a while: the life of a worker."""
        backlog, places = self.staff.backlog, self.staff.places
        self.called = False
        while not self.staff.gone:
            if me.pending:
                me.forget_cancels()
            with guard:
                call = backlog.popleft() if backlog else None
                begins = call is not None and call[0].begin(me)
            if call is None:
                if self.idled_out(me):
                    return
                continue
            if backlog and not self.called:
                self.call_one()
            if places is not None:
                places.release()
            if begins:
                me.make(call)
            del call  # and with it what it returned, while idle

    def idled_out(self, me: Worker) -> bool:
        """Wait for a call; True if none has come, and none will."""
        if self.staff.over():
            return True
        me.gr_context = None
        me.prepare(self.idle.reason, self.idle)
        self.idle.append(me)
        if self.staff.backlog:
            self.call_one()
        if self.staff.over():
            self.idle.wake_all()
        try:
            me.park(IDLE_SECONDS)
        except TimeoutError:
            return True
        self.called = False
        return False

    def cancel_calls(self) -> None:
        """Raise Cancelled in every call that is being made; in the crew's own OS thread."""
        for worker in list(self.workers):
            if worker.making is not None:
                worker.cancel_call(worker.making)

    def replace(self, worker: Worker) -> None:
        """Note that a worker ends; if there are calls, which may have counted on it, another one sees to them."""
        self.room.append(worker.number)
        if self.staff.backlog:
            if self.scheduler.closing or (at_exit and worker.fault is not None):
                self.staff.give_up(self)
            else:
                self.call_one()
        self.workers.discard(worker)

    def rest_if_over(self) -> None:
        """End a thread of our own once nobody is left to work there."""
        if self.owned and self.staff.closed and not self.workers and not self.staff.gone:
            self.scheduler.life.begin_stop()  # type: ignore[attr-defined]


class Staff:
    """All who take calls off one backlog: a crew for each scheduler."""

    def __init__(
        self, schedulers: Iterable[Scheduler], limit: int, max_pending: int | None = None, owned: bool = False
    ) -> None:
        self.backlog: deque[Call] = deque()
        self.places = None if max_pending is None else Semaphore(max_pending)
        self.closed = self.gone = False
        self.crews = [Crew(self, scheduler, limit, owned) for scheduler in schedulers]
        staffs.add(self)

    def __repr__(self) -> str:
        workers = [worker for crew in self.crews for worker in list(crew.workers)]
        busy = sum(worker.making is not None for worker in workers)
        return f"<Staff {busy} of {len(workers)} workers busy, {len(self.backlog)} calls due>"

    def submit(self, future: Future[Any], fn: Callable[..., Any], args: Any, kwargs: Any) -> None:
        """Have a call made. Parks: while ``max_pending`` calls wait (``semaphore.acquire``)."""
        self.check(fn)
        if self.places is not None:
            self.places.acquire()
        if self.closed:
            self.refuse()
        call = (future, fn, args, kwargs, copy_context())
        self.backlog.append(call)
        for crew in self.crews:
            if not crew.called:
                self.call_workers(call)
                break

    def check(self, fn: Callable[..., Any]) -> None:
        """Refuse what cannot be called, or cannot be called any more, at once."""
        code = getattr(fn, "__code__", None)
        if code is None or code.co_flags & inspect.CO_COROUTINE:
            check_function(fn)
        if self.closed:
            self.refuse()

    def refuse(self) -> None:
        if self.places is not None:
            self.places.release()
        if self.gone:
            raise RuntimeError("this pool stayed in the parent process: make one of its own in the child")
        raise RuntimeError("this pool has been shut down: it takes no more calls")

    def call_workers(self, call: Call) -> None:
        """Call a crew whose thread sleeps; if none does, every one that has room, as any may compute for long."""
        sleeping = [crew for crew in self.crews if crew.scheduler.asleep and (crew.idle or crew.room)]
        try:
            if sleeping:
                min(sleeping, key=Crew.at_work).call_one()
                return
            for crew in self.crews:
                if not crew.called:
                    crew.call_one()
        except RuntimeError:  # the scheduler has stopped, and nobody will come
            try:
                self.backlog.remove(call)
            except ValueError:  # somebody has come, or it was withdrawn
                return
            if self.closed:
                self.refuse()
            raise

    def over(self) -> bool:
        """Tell whether workers without a call are to end."""
        return self.closed or bool(at_exit)

    def close(self) -> None:
        """Take no more calls; end once those that were taken have been made. From: any thread."""
        self.closed = True
        for crew in self.crews:
            crew.idle.wake_all()
            if self.backlog:  # a submit was cut short by a Ctrl-C before it could call anybody
                with contextlib.suppress(RuntimeError):  # its last worker saw to the backlog, and has ended meanwhile
                    crew.call_one()
            crew.rest_if_over()

    def withdraw(self) -> None:
        """Cancel the calls that have not begun."""
        while True:
            with guard:
                if not self.backlog:
                    return
                future = self.backlog.popleft()[0]
            if self.places is not None:
                self.places.release()
            future.withdraw()

    def cancel(self) -> None:
        """Cancel all calls: those that have not begun are not made, the others get ``Cancelled``."""
        self.withdraw()
        for crew in self.crews:
            crew.scheduler.call(crew.cancel_calls)

    def give_up(self, crew: Crew) -> None:
        """Cancel what nobody is left to do: this crew's thread ends."""
        if at_exit or all(each is crew or each.scheduler.closing for each in self.crews):
            self.withdraw()

    def join(self, timeout: float | None) -> None:
        """Wait until every worker has ended, and the threads that are ours. Raises: TimeoutError."""
        deadline = None if timeout is None else originals.monotonic() + timeout
        for crew in self.crews:
            while workers := list(crew.workers):
                for worker in workers:
                    worker.join(left_until(deadline))
                    if deadline is not None and worker.is_alive():
                        raise TimeoutError(f"these calls have not ended: {busy(self)}")
            if crew.owned:
                crew.scheduler.stop(left_until(deadline))

    def leave_behind(self) -> None:
        """Be of no use any more, in a forked child: the threads stayed in the parent."""
        self.closed = self.gone = True
        for call in self.backlog:
            call[0].leave_behind()
        self.backlog.clear()
        for crew in self.crews:
            for worker in crew.workers:
                if worker.making is not None:
                    worker.making.leave_behind()


staffs: weakref.WeakSet[Staff] = weakref.WeakSet()
"""Everyone who may have calls to make."""


def busy(staff: Staff) -> str:
    return ", ".join(repr(worker) for crew in staff.crews for worker in list(crew.workers) if worker.making)


def left_until(deadline: float | None) -> float | None:
    return None if deadline is None else max(0.0, deadline - originals.monotonic())


def check_function(fn: object) -> None:
    """Raises: TypeError, with what to do, for what a worker cannot call."""
    if inspect.iscoroutine(fn):
        if inspect.getcoroutinestate(fn) == inspect.CORO_CREATED:
            fn.close()  # it is not to warn besides that it was never awaited
        raise TypeError(f"submit needs a function to call, not {fn!r}: in a dhaga call await_(coroutine)")
    if not callable(fn):
        raise TypeError(f"submit needs a function to call, not {fn!r}: submit(fn, *args), not submit(fn(*args))")
    plain: Any = fn
    while isinstance(plain, functools.partial):
        plain = plain.func
    code = getattr(plain, "__code__", None)
    if code is not None and code.co_flags & inspect.CO_COROUTINE:
        raise TypeError(
            f"{fn!r} is a coroutine function, and workers call plain ones: call await_ or run_in_dhaga, "
            "dhaga.await_(fn(...)) in a dhaga for a coroutine, dhaga.aio.run_in_dhaga(fn) in a coroutine for a dhaga"
        )


def forget_parent() -> None:
    for staff in list(staffs):
        staff.leave_behind()
    guard.release()


os.register_at_fork(before=guard.acquire, after_in_parent=guard.release, after_in_child=forget_parent)


# ---- the interpreter's exit

at_exit: list[bool] = []
"""Not empty from the beginning of the interpreter's exit on: no worker stays idle then, and none is a daemon."""


def let_workers_end() -> None:
    """Have the calls under way and those due waited for, as dhagas are; idle workers end now.

    Called before the kernel waits for dhagas, as the last hook that was registered comes first.
    """
    at_exit.append(True)
    for staff in list(staffs):
        for crew in staff.crews:
            for worker in list(crew.workers):
                worker.daemon = interrupted()
            crew.idle.wake_all()


getattr(threading, "_register_atexit", atexit.register)(let_workers_end)
