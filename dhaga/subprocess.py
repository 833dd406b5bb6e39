"""The standard ``subprocess`` on dhagas: its own code, which finds ``dhaga.os``, ``dhaga.io`` and the like where it
looks for ``os`` and ``io``. So the whole contract is the standard's; a plain OS thread blocks.

What is written anew is the wait for a process alone: it sleeps until the end of the child, and does not ask again and
again. Whatever is not defined here is the standard module's own.
"""

from __future__ import annotations

import subprocess as standard
import time
from types import FunctionType
from typing import Any, TypeVar

import dhaga.io as io
import dhaga.os as os
import dhaga.selectors as selectors
import dhaga.threading as threading
import dhaga.time as parking_time

from .children import await_end, standard_waitpid
from .kernel.originals import Namespace
from .kernel.osthread import OSThread
from .kernel.waiting import this_waiter

__all__ = ["Popen", "call", "check_call", "check_output", "getoutput", "getstatusoutput", "run"]

F = TypeVar("F")


def __getattr__(name: str) -> Any:
    return getattr(standard, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *dir(standard)})


class Seen(Namespace):
    """The standard module as its own code is to see it here."""

    def __missing__(self, name: str) -> Any:
        """Find the standard ``os`` if that is patched, too: a program's tests may mock it."""
        found = super().__missing__(name)
        return os if name == "os" and found.waitpid is standard_waitpid else found


seen = Seen(standard)


def on_dhagas(function: F) -> F:
    """Return a function of the standard module that sees what is ``seen``."""
    assert isinstance(function, FunctionType)
    twin = FunctionType(function.__code__, seen, function.__name__, function.__defaults__, function.__closure__)
    twin.__kwdefaults__, twin.__annotations__ = function.__kwdefaults__, function.__annotations__
    twin.__qualname__, twin.__doc__, twin.__module__ = function.__qualname__, function.__doc__, __name__
    return twin  # type: ignore[return-value]


class Popen(standard.Popen[Any]):
    """A child process. Parks: ``wait`` and ``communicate``, and whatever reads or writes its pipes.

    A cancel in one of these leaves the process as it is; ``run`` and its like kill it. Source: ``subprocess.Popen``.
    """

    def _wait(self, timeout: Any) -> Any:
        if self.returncode is not None or timeout == 0 or isinstance(me := this_waiter(), OSThread):
            return standard_wait(self, timeout)
        deadline = None if timeout is None else time.monotonic() + timeout
        await_end(self.pid, me, timeout)
        if deadline is None:
            return standard_wait(self, None)
        try:
            return standard_wait(self, max(0.0, deadline - time.monotonic()))
        except standard.TimeoutExpired as expired:
            expired.timeout = timeout
            raise


standard_wait: Any = on_dhagas(standard.Popen._wait)  # type: ignore[attr-defined]
for name, method in vars(standard.Popen).items():
    if isinstance(method, FunctionType) and method.__globals__ is vars(standard) and name not in vars(Popen):
        setattr(Popen, name, on_dhagas(method))

call = on_dhagas(standard.call)
check_call = on_dhagas(standard.check_call)
check_output = on_dhagas(standard.check_output)
getoutput = on_dhagas(standard.getoutput)
getstatusoutput = on_dhagas(standard.getstatusoutput)
run = on_dhagas(standard.run)

seen.update(io=io, selectors=selectors, threading=threading, time=parking_time)
seen.update({name: globals()[name] for name in __all__})
if hasattr(standard, "_PopenSelector"):  # the one name of it that is private: what it has chosen at import
    seen["_PopenSelector"] = getattr(selectors, standard._PopenSelector.__name__)
