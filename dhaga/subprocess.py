"""The standard ``subprocess`` on dhagas: its own code, run in a namespace where ``os``, ``io`` and others are dhaga's.

So the whole contract is the standard's, and a plain OS thread blocks. Only the wait for a process is our own code: it
parks on a pidfd instead of polling. All other names are the standard module's own.

``namespace`` stands in for the globals of the standard module. Names that a face replaces are stored in it; all others
are looked up in the standard module at each use, so that a program's mocks take effect.
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
    """Globals of the standard module as its own code sees them here."""

    def __missing__(self, name: str) -> Any:
        """Return a standard name; ``os`` is ours, unless a program's test has put a mock in its place."""
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
    """A child process. Parks: ``wait``, ``communicate``, and reads and writes of its pipes.

    A cancel in one of these leaves the process running; ``run`` and its relatives kill and reap it. Source:
    ``subprocess.Popen``.
    """

    _killed = False

    def _execute_child(self, *args: Any) -> None:
        """Start the process. A cancel meanwhile is raised at the next park: otherwise the process would be lost."""
        with nullcontext() if parking_waiter() is None else shield():
            standard_execute_child(self, *args)

    def kill(self) -> None:
        """Kill the process. From then on no cancel interrupts a wait for the process, because it is certain to end."""
        self._killed = True
        super().kill()

    def _wait(self, timeout: Any) -> Any:
        """Park until the child has ended, then let the standard method reap it."""
        check_seconds(timeout)
        if self.returncode is not None or timeout == 0 or isinstance(me := this_waiter(), OSThread):
            return standard_wait(self, timeout)
        # Without this, a scope's cancel would also be raised at the park in the `with` of `run`, and leave a zombie.
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
standard_wait: Any = bound_to_namespace(standard.Popen._wait)  # type: ignore[attr-defined]
for _name, _method in vars(standard.Popen).items():
    if isinstance(_method, FunctionType) and _method.__globals__ is vars(standard) and _name not in vars(Popen):
        setattr(Popen, _name, bound_to_namespace(_method))

if TYPE_CHECKING:  # with the standard overloads
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
if hasattr(standard, "_PopenSelector"):  # the class that the standard module has chosen at import, by its private name
    namespace["_PopenSelector"] = getattr(selectors, standard._PopenSelector.__name__)
