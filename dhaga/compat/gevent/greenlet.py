"""``gevent.greenlet``: a dhaga with the methods and attributes of gevent's Greenlet."""

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
from ._joinall import joinall, killall
from ._links import Callback, Linkable
from ._loop import loop_of, report
from .timeout import Timeout, until

__all__ = ["Greenlet", "joinall", "killall"]


class Greenlet(Linkable, DelayedStart):
    """A microthread that is created first and started later, with an empty context. Source: ``gevent.Greenlet``.

    A subclass may define ``_run`` instead of passing a function.
    """

    # These slots hold our fields. A __dict__ is created only when the program sets another attribute.
    __slots__ = ("_links", "_to_start", "_told", "_was_started", "spawn_tree_locals", "spawning_greenlet")

    spawning_stack: ClassVar[Any] = None
    """Always None: the stack of the spawn is not recorded, because that would cost more than the spawn itself."""
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
        """Weak reference to the greenlet that created this greenlet."""
        tree: dict[str, Any] | None
        if isinstance(me, Greenlet):
            scheduler, tree = me.scheduler, me.spawn_tree_locals
        else:
            scheduler, tree = current_scheduler(), getattr(me, "spawn_tree_locals", None)
        self.spawn_tree_locals: dict[str, Any] = {} if tree is None else tree
        """A dict that a greenlet shares with all greenlets that it spawns, directly or indirectly."""
        Dhaga.__init__(self, scheduler, taken_by_spawn(run), args, kwargs or None, None, True, Context())

    @property
    def args(self) -> tuple[Any, ...]:
        """The positional arguments; an empty tuple once the greenlet has ended."""
        return self._args or ()

    @args.setter
    def args(self, args: tuple[Any, ...]) -> None:
        self._args = args

    @property
    def kwargs(self) -> dict[str, Any]:
        """The keyword arguments; an empty dict once the greenlet has ended."""
        if self._kwargs is None:
            self._kwargs = {}
        return self._kwargs

    @kwargs.setter
    def kwargs(self, kwargs: dict[str, Any]) -> None:
        self._kwargs = kwargs

    def _run(self, *args: Any, **kwargs: Any) -> Any:
        """Do the greenlet's work if no function was given. Subclasses may override this method."""

    # ---- start

    def start(self) -> None:
        """Append the greenlet to the run queue; no-op if it was started already, or if a timer will start it."""
        if self._was_started or self.has_ended or self._to_start is not None:
            return
        if self._spawn_callbacks:
            self._tell_spawn()
        self._was_started = True
        self.scheduler.admit(self)

    def start_later(self, seconds: float) -> None:
        """Schedule the start after ``seconds`` seconds."""
        if self._was_started or self.has_ended or self._to_start is not None:
            return
        self._tell_spawn()
        self._start_in(seconds)

    def _tell_spawn(self) -> None:
        for callback in self._spawn_callbacks:
            callback(self)

    def _start_now(self) -> None:
        self._to_start = None
        if not self._was_started:
            self._was_started = True
            self.scheduler.admit(self)

    @classmethod
    def spawn(cls, *args: Any, **kwargs: Any) -> Any:
        """Create a greenlet and start it."""
        greenlet = cls(*args, **kwargs)
        greenlet.start()
        return greenlet

    @classmethod
    def spawn_later(cls, seconds: float, *args: Any, **kwargs: Any) -> Any:
        """Create a greenlet and start it after ``seconds`` seconds."""
        if cls is Greenlet and not (args and callable(args[0])):
            raise TypeError("function must be callable")
        greenlet = cls(*args, **kwargs)
        greenlet.start_later(seconds)
        return greenlet

    # ---- state

    @property
    def started(self) -> bool:
        """Whether the greenlet was started and has not ended."""
        return (self._was_started or self._to_start is not None) and not self.has_ended

    def __bool__(self) -> bool:
        return self.started

    def ready(self) -> bool:
        """Return whether the greenlet has ended."""
        return self.has_ended

    @property
    def dead(self) -> bool:
        """Whether the greenlet has ended."""
        return self.has_ended

    def successful(self) -> bool:
        """Return whether the greenlet has ended without an error; GreenletExit counts as success."""
        return self.has_ended and (self._error is None or isinstance(self._error, (GreenletExit, Cancelled)))

    @property
    def value(self) -> Any:
        """The function's result, or the GreenletExit that killed the greenlet; otherwise None."""
        if not self.has_ended:
            return None
        if self._error is None:
            return self._value
        return self._error if self.successful() else None

    @property
    def exception(self) -> BaseException | None:
        """The error that ended the greenlet, or None."""
        return None if not self.has_ended or self.successful() else self._error

    @property
    def exc_info(self) -> tuple[type[BaseException], BaseException, TracebackType | None] | tuple[()]:
        """The error that ended the greenlet, in the form of ``sys.exc_info``, or an empty tuple."""
        error = self.exception
        return () if error is None else (type(error), error, getattr(self, "_trace", None))

    @property
    def minimal_ident(self) -> int:
        """A small unique number."""
        return self.ident

    @property
    def loop(self) -> Any:
        """The loop of the greenlet's hub."""
        return loop_of(self.scheduler)

    @property
    def name(self) -> str:
        """The name, which a program may set. The default is ``Greenlet-N``, which is assigned on the first use."""
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
        """Wait until the greenlet ends. Parks: at most ``timeout`` seconds; ``ready()`` then tells whether it ended."""
        if self.has_ended:
            return
        if isinstance(timeout, Timeout):
            until(timeout, self.join)
            return
        if not self.started and self is getcurrent():
            return
        if self is getcurrent() and self.pending_errors:
            sleep(0)  # the greenlet has killed itself, and ends at this yield
        self.wait_for_end(timeout)

    def get(self, block: bool = True, timeout: float | None = None) -> Any:
        """Return the function's result, or raise its error. Parks: until the greenlet ends. Raises: Timeout."""
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
        """Wait until the greenlet ends; kill it if the block or the wait raises an error. Parks: until its end."""
        if error is not None:
            self.kill(error)
            return
        try:
            self.join()
        finally:
            self.kill()

    # ---- killing

    def kill(self, exception: Any = GreenletExit, block: bool = True, timeout: float | None = None) -> None:
        """Raise an error in the greenlet at its wait, and wait for its end. An unstarted greenlet ends without running.

        If the greenlet is the caller itself, it is killed at once, or, without ``block``, at its next wait.
        Parks: if ``block``, until the greenlet ends, at most ``timeout`` seconds.
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
            sleep(0)  # as in gevent, the caller continues right after its victim, before greenlets that yield meanwhile
        if block and not self.has_ended:
            # A subclass's join() expects a greenlet that has run.
            (self.join if has_run else self.wait_for_end)(timeout)

    def _end_unstarted(self, error: BaseException) -> None:
        """End the greenlet before it has run; its function is never called."""
        self._was_started = True
        self._error = error
        self._end()

    def _report(self, error: BaseException) -> None:
        if not isinstance(error, (GreenletExit, Cancelled)):
            report(self.scheduler, self, error)

    def throw(self, *args: Any) -> None:
        """Raise an error, given by type, value and traceback, in the greenlet. Parks: never."""
        self.kill(thrown(*args), block=self is getcurrent())

    @classmethod
    def add_spawn_callback(cls, callback: Callback) -> None:
        """Register ``callback(greenlet)``, called at the first ``start`` or ``start_later`` of each greenlet."""
        if callback not in cls._spawn_callbacks:
            cls._spawn_callbacks.append(callback)

    @classmethod
    def remove_spawn_callback(cls, callback: Callback) -> None:
        """Remove a spawn callback; no-op if the callback is not registered."""
        if callback in cls._spawn_callbacks:
            cls._spawn_callbacks.remove(callback)

    # ---- links

    def rawlink(self, callback: Callback) -> None:
        if type(self._links) is tuple:  # this is the first callback
            self._joiners.append([CALL_LINKS])
        super().rawlink(callback)

    def _add_joiner(self, joiner: Any) -> list[Any]:
        """Register ``joiner.deliver_wake(self)``, called when the greenlet ends, or at once if it has ended.

        A joiner costs less than a linked callback, but must not raise. Joiners are called in the order of their
        registration. Returns: the ticket, with which ``_drop_ticket`` cancels the call.
        """
        ticket = [joiner]
        self._joiners.append(ticket)
        if self.has_ended:
            self.release_joiners()
        return ticket

    def _drop_ticket(self, ticket: list[Any]) -> None:
        """Cancel the call of a joiner; no-op once the call was made."""
        if claim(ticket):
            self._remove(None)

    def link(self, callback: Callback, SpawnedLink: Any = None) -> None:
        """Spawn ``callback(self)`` once the greenlet has ended."""
        self.rawlink(SpawnedCallback(callback))

    def link_value(self, callback: Callback, SpawnedLink: Any = None) -> None:
        """Spawn ``callback(self)`` if the greenlet ends without an error."""
        self.rawlink(SpawnedCallback(callback, when=True))

    def link_exception(self, callback: Callback, SpawnedLink: Any = None) -> None:
        """Spawn ``callback(self)`` if the greenlet ends with an error."""
        self.rawlink(SpawnedCallback(callback, when=False))

    def _call_links(self, callbacks: list[Callback]) -> None:
        links = self._links
        for callback in callbacks:
            if callback not in links:
                continue
            if type(callback) is not SpawnedCallback:
                links.remove(callback)
            try:
                callback(self)
            except BaseException as error:
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
        """Return whether any callback is registered."""
        return bool(self._links)


def told(owner: Greenlet, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    """Return a function and its arguments as text, for the repr of a greenlet."""
    holder = getattr(function, "__self__", None)
    name = "_run" if holder is owner else repr(function) if holder is not None else ""
    shown = [*map(repr, args), *(f"{key}={value!r}" for key, value in kwargs.items())]
    return (name or getattr(function, "__name__", None) or repr(function)) + (f"({', '.join(shown)})" if shown else "")


class LinksCaller:
    """Joiner that calls a greenlet's linked callbacks when the greenlet ends."""

    __slots__ = ()

    def deliver_wake(self, greenlet: Greenlet) -> None:
        greenlet._call_links(greenlet._links[:])


CALL_LINKS = LinksCaller()


class SpawnedCallback:
    """Callback that ``link`` and its variants register. It calls the program's callback in a new greenlet."""

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
        """Call the callback, unless another callback has unlinked it meanwhile."""
        if self in source._links:
            source._links.remove(self)
            self.callback(source)


hooks.left_at_exit.append(lambda dhaga: isinstance(dhaga, Greenlet))
