"""``Context.term`` of pyzmq, which parks until the context's sockets are closed and their messages are sent."""

from __future__ import annotations

from functools import wraps
from typing import Any

from zmq import Context

from ..._kernel import originals
from ..._kernel.wait.current import parking_waiter
from ..._workers.offload import offload

standard_term, standard_del = Context.term, Context.__del__


@wraps(standard_term)
def term(self: Any) -> None:
    """Terminate the context. Parks: until its sockets are closed and their messages are sent (``offload``).

    A cancel ends only the wait. The termination continues, and another call waits for the end of the termination.
    """
    if self.closed or "_dhaga_collected" in self.__dict__ or parking_waiter() is None:
        standard_term(self)
    else:
        lock = self.__dict__.setdefault("_dhaga_term", originals.allocate_lock())
        offload(term_once, self, lock)


def term_once(context: Any, lock: Any) -> None:
    with lock:
        if not context.closed:
            standard_term(context)


@wraps(standard_del)
def collected(self: Any) -> None:
    """Destroy an unclosed context. Parks: never, because a finalizer may run at any point."""
    self.__dict__["_dhaga_collected"] = True
    standard_del(self)


METHODS = {"__del__": collected, "term": term}
