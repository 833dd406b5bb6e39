"""The standard ``subprocess`` for dhagas: the standard code, which runs with the ``os``, ``io`` etc. of ``dhaga``.

So the contract is the standard module's, and a plain OS thread blocks. Only the wait for a process is our own code: on
Linux, this wait parks on a pidfd instead of polling. All other names are the standard module's own.

``namespace`` replaces the globals of the standard code. It contains the names that Dhaga replaces. All other names are
looked up in the standard module at each use, so that a program's mocks take effect.
"""

from __future__ import annotations

import subprocess as standard
from collections.abc import Callable
from contextlib import nullcontext
from types import FunctionType
from typing import TYPE_CHECKING, Any, TypeVar

import dhaga.io as io
import dhaga.os as os
import dhaga.selectors as selectors
import dhaga.threading as threading
import dhaga.time as parking_time

from ._iowait.child_wait import PAUSES, collected, standard_waitpid, wait_for_exit
from ._kernel.backoff import backoff
from ._kernel.faces.arguments import check_seconds
from ._kernel.faces.foreign_names import refuse_async_with
from ._kernel.faces.stdlib_face import fall_back_to
from ._kernel.originals import Namespace
from ._kernel.platform.system import system
from ._kernel.wait.current import clock_of, parking_waiter, this_waiter
from ._kernel.wait.thread_waiter import OSThread
from ._kernel.wait.waiter import Waiter
from ._structured.shield import shield

__all__ = ["Popen", "call", "check_call", "check_output", "getoutput", "getstatusoutput", "run"]

F = TypeVar("F")

__getattr__: Callable[[str], Any]
__dir__: Callable[[], list[str]]
__getattr__, __dir__ = fall_back_to(standard, globals())


class StandardNamespace(Namespace):
    """The globals of the copies of standard functions."""

    def __missing__(self, name: str) -> Any:
        """Return the standard module's value of a name. For ``os``, return Dhaga's module, unless a test has set a mock
        there.
        """
        found = super().__missing__(name)
        return os if name == "os" and found.waitpid is standard_waitpid else found


namespace: StandardNamespace = StandardNamespace(standard)


def bound_to_namespace(function: F) -> F:
    """Return a copy of a standard function whose globals are ``namespace``."""
    assert isinstance(function, FunctionType)
    copy = FunctionType(function.__code__, namespace, function.__name__, function.__defaults__, function.__closure__)
    copy.__kwdefaults__, copy.__annotations__ = function.__kwdefaults__, function.__annotations__
    copy.__qualname__, copy.__doc__, copy.__module__ = function.__qualname__, function.__doc__, __name__
    return copy  # type: ignore[return-value]


@refuse_async_with("await asyncio.create_subprocess_exec(...)")
class Popen(standard.Popen[Any]):
    """A child process. Parks: in ``wait``, ``communicate``, and in reads and writes of the pipes.

    A cancel of such a park leaves the process running; ``run``, ``call`` and similar functions then kill and reap the
    process. Source: ``subprocess.Popen``.
    """

    _killed = False

    def _execute_child(self, *args: Any) -> None:
        """Start the process. A cancel during the start is raised at the next park, so that the process is not lost."""
        with nullcontext() if parking_waiter() is None else shield():
            standard_execute_child(self, *args)

    def kill(self) -> None:
        """Kill the process. Afterwards no cancel interrupts a wait for the process, because its end is certain."""
        self._killed = True
        super().kill()

    def _internal_poll(self, *args: Any, **options: Any) -> Any:
        """Return the exit status of an ended process, even if a call that reaps any child has stored the status."""
        if self.returncode is None and self.pid in collected:
            return standard_wait(self, None)
        return standard_internal_poll(self, *args, **options)

    def _wait(self, timeout: Any) -> Any:
        """Park until the child has ended, then reap it with the standard method."""
        check_seconds(timeout)
        if self.returncode is not None or timeout == 0 or isinstance(me := this_waiter(), OSThread):
            return standard_wait(self, timeout)
        # Without the shield, a scope's cancel would also be raised at the park at the end of `run`, and leave a zombie.
        if self._killed:
            with shield():
                return self._park_until_end_(me, timeout)
        return self._park_until_end_(me, timeout)

    def _park_until_end_(self, me: Waiter, timeout: Any) -> Any:
        clock = clock_of(me)
        deadline = None if timeout is None else clock() + timeout
        if not system.WAITS_FOR_FILES:  # the standard method would block the OS thread
            for pause in backoff(*PAUSES):
                if self.poll() is not None or (deadline is not None and clock() >= deadline):
                    break
                parking_time.sleep(pause)
        try:
            wait_for_exit(self.pid, me, timeout)
        except BaseException:
            if self.pid in collected:
                standard_wait(self, None)
            raise
        if deadline is None:
            return standard_wait(self, None)
        try:
            return standard_wait(self, max(0.0, deadline - clock()))
        except standard.TimeoutExpired as expired:
            expired.timeout = timeout
            raise


standard_execute_child: Any = bound_to_namespace(standard.Popen._execute_child)  # type: ignore[attr-defined]
standard_internal_poll: Any = bound_to_namespace(standard.Popen._internal_poll)  # type: ignore[attr-defined]
standard_wait: Any = bound_to_namespace(standard.Popen._wait)  # type: ignore[attr-defined]
for _name, _method in vars(standard.Popen).items():
    if isinstance(_method, FunctionType) and _method.__globals__ is vars(standard) and _name not in vars(Popen):
        setattr(Popen, _name, bound_to_namespace(_method))

if TYPE_CHECKING:  # the standard functions have overloads
    from subprocess import call as call
    from subprocess import check_call as check_call
    from subprocess import check_output as check_output
    from subprocess import getoutput as getoutput
    from subprocess import getstatusoutput as getstatusoutput
    from subprocess import run as run
else:
    call = bound_to_namespace(standard.call)
    check_call = bound_to_namespace(standard.check_call)
    check_output = bound_to_namespace(standard.check_output)
    getoutput = bound_to_namespace(standard.getoutput)
    getstatusoutput = bound_to_namespace(standard.getstatusoutput)
    run = bound_to_namespace(standard.run)

namespace.update(io=io, selectors=selectors, threading=threading, time=parking_time)
namespace.update({name: globals()[name] for name in __all__})
if hasattr(standard, "_PopenSelector"):  # the counterpart of the class that the standard module chose at import
    namespace["_PopenSelector"] = getattr(selectors, standard._PopenSelector.__name__)
