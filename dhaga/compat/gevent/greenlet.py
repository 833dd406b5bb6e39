"""``gevent.greenlet``: a dhaga with the face of gevent's Greenlet."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import Context
from types import TracebackType
from typing import Any, ClassVar, Self
from weakref import ref

from greenlet import GreenletExit, getcurrent, greenlet

from ..._kernel import hooks
from ..._kernel.errors import Cancelled
from ..._kernel.faces.foreign_names import OwnName
from ..._kernel.process.current_scheduler import current_scheduler
from ..._kernel.run.microthread import Dhaga
from ..._kernel.run.scheduler import sleep
from ..._kernel.wait.waiter import claim
from .._shared.delayed_start import DelayedStart
from .._shared.generator_functions import taken_by_spawn
from .._shared.thrown import thrown
from ._links import Callback, Linkable, joinall, killall
from ._loop import loop_of, report
from .timeout import Timeout

__all__ = ["Greenlet", "joinall", "killall"]


class Greenlet(Linkable, DelayedStart):
    """A microthread that is made first and started later, with an empty context. Source: ``gevent.Greenlet``.

    A subclass may define ``_run`` instead of giving a function.
    """

    # Slots for our fields; a __dict__ is made only when the program sets an attribute.
    __slots__ = ("_links", "_to_start", "_told", "_was_started", "spawn_tree_locals", "spawning_greenlet")

    spawning_stack: ClassVar[Any] = None
    """Frames of the spawn are not kept, because they cost more than the spawn."""
    spawning_stack_limit: ClassVar[int] = 0

    _spawn_callbacks: ClassVar[list[Callback]] = []

    stands_for_thread = False

    priority: Any = OwnName(Dhaga.priority)  # type: ignore[arg-type]
    reason: Any = OwnName(Dhaga.reason)  # type: ignore[arg-type]
    state: Any = OwnName(Dhaga.state)  # type: ignore[arg-type]

    def __init__(self, run: Callable[..., Any] | None = None, *args: Any, **kwargs: Any) -> None:
        if run is None:
            run = self._run
        if not callable(run):
            raise TypeError("The run argument or self._run must be callable")
        self._links = ()
        self._to_start = None
        self._was_started = False
        self._told: str | None = None
        me = getcurrent()
        self.spawning_greenlet: Any = ref(me)
        """Weak reference to the greenlet that created this one."""
        tree: dict[str, Any] | None
        if isinstance(me, Greenlet):
            scheduler, tree = me.scheduler, me.spawn_tree_locals
        else:
            scheduler, tree = current_scheduler(), getattr(me, "spawn_tree_locals", None)
        self.spawn_tree_locals: dict[str, Any] = {} if tree is None else tree
        """A dict shared by all greenlets that descend from the same spawn."""
        Dhaga.__init__(self, scheduler, taken_by_spawn(run), args, kwargs or None, None, True, Context())

    @property
    def args(self) -> tuple[Any, ...]:
        """The positional arguments; empty once it has ended."""
        return self._args or ()

    @args.setter
    def args(self, args: tuple[Any, ...]) -> None:
        self._args = args

    @property
    def kwargs(self) -> dict[str, Any]:
        """The keyword arguments; empty once it has ended."""
        if self._kwargs is None:
            self._kwargs = {}
        return self._kwargs

    @kwargs.setter
    def kwargs(self, kwargs: dict[str, Any]) -> None:
        self._kwargs = kwargs

    def _run(self, *args: Any, **kwargs: Any) -> Any:
        """Run the function; subclasses may override it."""

    # ---- its start

    def start(self) -> None:
        """Schedule the start at the end of the run queue; no-op if it was started already."""
        if self._was_started or self.has_ended:
            return
        if self._to_start is not None:
            self._cancel_start()
        elif self._spawn_callbacks:
            self._tell_spawn()
        self._was_started = True
        self.scheduler.admit(self)

    def start_later(self, seconds: float) -> None:
        """Schedule the start in ``seconds`` seconds."""
        if self._was_started or self.has_ended or self._to_start is not None:
            return
        self._tell_spawn()
        self._start_in(seconds)

    def _tell_spawn(self) -> None:
        for callback in self._spawn_callbacks:
            callback(self)

    def _start_now(self) -> None:
        self.start()

    @classmethod
    def spawn(cls, *args: Any, **kwargs: Any) -> Any:
        """Create a greenlet and start it."""
        greenlet = cls(*args, **kwargs)
        greenlet.start()
        return greenlet

    @classmethod
    def spawn_later(cls, seconds: float, *args: Any, **kwargs: Any) -> Any:
        """Create a greenlet and start it in ``seconds`` seconds."""
        if cls is Greenlet and not (args and callable(args[0])):
            raise TypeError("function must be callable")
        greenlet = cls(*args, **kwargs)
        greenlet.start_later(seconds)
        return greenlet

    # ---- its state

    @property
    def started(self) -> bool:
        """Whether it was started and has not ended."""
        return (self._was_started or self._to_start is not None) and not self.has_ended

    def __bool__(self) -> bool:
        return self.started

    def ready(self) -> bool:
        """Return whether it has ended."""
        return self.has_ended

    @property
    def dead(self) -> bool:
        """Whether it has ended."""
        return self.has_ended

    def successful(self) -> bool:
        """Return whether it has ended without an error; GreenletExit counts as success."""
        return self.has_ended and (self._error is None or isinstance(self._error, (GreenletExit, Cancelled)))

    @property
    def value(self) -> Any:
        """The function's result, or the GreenletExit that killed it; else None."""
        if not self.has_ended:
            return None
        if self._error is None:
            return self._value
        return self._error if self.successful() else None

    @property
    def exception(self) -> BaseException | None:
        """The error that has ended it, or None."""
        return None if not self.has_ended or self.successful() else self._error

    @property
    def exc_info(self) -> tuple[type[BaseException], BaseException, TracebackType | None] | tuple[()]:
        """The error that has ended it, in the form of ``sys.exc_info``, or an empty tuple."""
        error = self.exception
        return () if error is None else (type(error), error, getattr(self, "_trace", None))

    @property
    def minimal_ident(self) -> int:
        """A small unique number."""
        return self.ident

    @property
    def loop(self) -> Any:
        """The loop of its hub."""
        return loop_of(self.scheduler)

    @property
    def name(self) -> str:
        """The name given, or ``Greenlet-N``, which it has from the first use on; may be set."""
        if self.own_name is None:
            self.own_name = f"Greenlet-{self.ident}"
        return self.own_name

    @name.setter
    def name(self, name: str) -> None:
        self.own_name: str = name

    def __repr__(self) -> str:
        if self._told is None and self._fn is not None:
            self._told = told(self, self._fn, self.args, self.kwargs)
        name = "" if self.own_name is None else f' "{self.own_name}"'
        return f"<{type(self).__name__}{name} at {id(self):#x}: {self._told or 'ended'}>"

    # ---- joining

    def join(self, timeout: float | None = None) -> None:
        """Wait for its end. Parks: while it lives, at most ``timeout`` seconds; ``ready()`` tells which came first."""
        if self.has_ended:
            return
        if not self.started:
            if timeout is None and self is not getcurrent():
                self.wait_for_end(None)
            return
        if self is getcurrent() and self.pending_errors:
            sleep(0)  # it has killed itself, and ends here
        self.wait_for_end(timeout)

    def get(self, block: bool = True, timeout: float | None = None) -> Any:
        """Return the function's result, or raise its error. Parks: while it lives. Raises: Timeout."""
        if not self.has_ended:
            if not block:
                raise Timeout()
            if isinstance(timeout, Timeout):
                return timeout.within(self.get)
            self.result_waiters += 1  # atomic
            try:
                if not self.wait_for_end(timeout):
                    raise Timeout(timeout)
            except BaseException:
                self.leave_result()
                raise
        if self._error is None:
            return self._value
        if self.successful():
            return self.value
        return self.result()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        """Wait for its end; an error in the block, or in that wait, kills it. Parks: while it lives."""
        if error is not None:
            self.kill(error)
            return
        try:
            self.join()
        finally:
            self.kill()

    # ---- killing

    def kill(self, exception: Any = GreenletExit, block: bool = True, timeout: float | None = None) -> None:
        """Raise an error at its wait, and wait for its end. A greenlet that has not started never runs. The caller
        itself is killed here, or at its next wait without ``block``.

        Parks: while it lives, if ``block``, at most ``timeout`` seconds.
        """
        if self.has_ended:
            return
        error = exception() if isinstance(exception, type) else exception
        self._cancel_start()
        if not self._was_started:
            self._end_unstarted(error)
            return
        if self is getcurrent() and block:
            raise error
        has_run = greenlet.__bool__(self)
        self.scheduler.call(self.cancel_with, error)
        if block and not self.has_ended:
            sleep(0)  # as in gevent, the caller goes on right behind its victim, before greenlets that yield meanwhile
        if block and not self.has_ended:
            # A subclass's join() expects a greenlet that has run.
            (self.join if has_run else self.wait_for_end)(timeout)

    def _end_unstarted(self, error: BaseException) -> None:
        """End before the first switch: the function is never called."""
        self._was_started = True
        self._error = error
        self._end()

    def _report(self, error: BaseException) -> None:
        if not isinstance(error, (GreenletExit, Cancelled)):
            report(self.scheduler, self, error)

    def throw(self, *args: Any) -> None:
        """Raise an error in it, by type, value and traceback, without waiting for its end."""
        self.kill(thrown(*args), block=self is getcurrent())

    @classmethod
    def add_spawn_callback(cls, callback: Callback) -> None:
        """Register ``callback(greenlet)``, called before each start of a greenlet."""
        if callback not in cls._spawn_callbacks:
            cls._spawn_callbacks.append(callback)

    @classmethod
    def remove_spawn_callback(cls, callback: Callback) -> None:
        """Remove a spawn callback; no-op if it is not registered."""
        if callback in cls._spawn_callbacks:
            cls._spawn_callbacks.remove(callback)

    # ---- links

    def rawlink(self, callback: Callback) -> None:
        if type(self._links) is tuple:  # the first one
            self._joiners.append([CALL_LINKS])
        super().rawlink(callback)

    def _add_joiner(self, joiner: Any) -> list[Any]:
        """Register ``joiner.deliver_wake(self)``, called at the end, or at once after it. Returns: the ticket.

        Cheap link for callbacks that cannot raise; called in order with the joiners.
        """
        ticket = [joiner]
        self._joiners.append(ticket)
        if self.has_ended:
            self.release_joiners()
        return ticket

    def _drop_ticket(self, ticket: list[Any]) -> None:
        """Cancel the call; no-op once made."""
        if claim(ticket):
            self._remove(None)

    def link(self, callback: Callback, SpawnedLink: Any = None) -> None:
        """Spawn ``callback(self)`` once this has ended."""
        self.rawlink(SpawnedCallback(callback))

    def link_value(self, callback: Callback, SpawnedLink: Any = None) -> None:
        """Spawn ``callback(self)`` if this has ended without an error."""
        self.rawlink(SpawnedCallback(callback, when=True))

    def link_exception(self, callback: Callback, SpawnedLink: Any = None) -> None:
        """Spawn ``callback(self)`` if this has ended by an error."""
        self.rawlink(SpawnedCallback(callback, when=False))

    def _call_links(self) -> None:
        links = self._links  # a ready object stays ready: check each only once
        for callback in links[:]:
            if callback not in links:
                continue
            if type(callback) is not SpawnedCallback:
                links.remove(callback)
            try:
                callback(self)
            except Exception as error:
                report(self.scheduler, (callback, self), error)

    def unlink(self, callback: Callback) -> None:
        super().unlink(callback)
        if self._links:
            self._links[:] = [each for each in self._links if getattr(each, "callback", None) != callback]

    def unlink_all(self) -> None:
        """Remove all callbacks."""
        if self._links:
            self._links.clear()

    def has_links(self) -> bool:
        """Return whether there are callbacks."""
        return bool(self._links)


def told(owner: Greenlet, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    """Return the text of a function and its arguments, for a greenlet's repr."""
    holder = getattr(function, "__self__", None)
    name = "_run" if holder is owner else repr(function) if holder is not None else ""
    shown = [*map(repr, args), *(f"{key}={value!r}" for key, value in kwargs.items())]
    return (name or getattr(function, "__name__", None) or repr(function)) + (f"({', '.join(shown)})" if shown else "")


class LinksCaller:
    """Joiner that calls the links of a greenlet at its end."""

    __slots__ = ()

    deliver_wake: Any = staticmethod(Greenlet._call_links)


CALL_LINKS = LinksCaller()


class SpawnedCallback:
    """Callback of ``link`` and its variants: calls the given one in a greenlet of its own, if still linked."""

    __slots__ = ("callback", "is_spawned", "when")

    def __init__(self, callback: Callback, when: bool | None = None) -> None:
        if not callable(callback):
            raise TypeError(f"Expected callable: {callback!r}")
        self.callback: Callback = callback
        self.when: bool | None = when
        self.is_spawned: bool = False

    def __call__(self, source: Greenlet) -> None:
        if self.when is not None and source.successful() is not self.when:
            source._links.remove(self)
        elif not self.is_spawned:
            self.is_spawned = True
            Greenlet.spawn(self.run, source)

    def run(self, source: Greenlet) -> None:
        """Call the callback, unless another one has unlinked it meanwhile."""
        if self in source._links:
            source._links.remove(self)
            self.callback(source)


hooks.left_at_exit.append(lambda dhaga: isinstance(dhaga, Greenlet))
