"""python-ldap on dhagas: ``install()`` makes its connections park where libldap would wait for an answer.

python-ldap first sends a request, and then waits for the answer with ``result4``. In a dhaga, ``result4`` is called
without waiting, and the dhaga parks on the connection's fd until the server answers. Calls that cannot be split like
this run in an OS thread while their caller is parked (``dhaga.offload``). These are the first request of a connection
(it also connects), and functions whose names end in ``_s``, such as ``start_tls_s``. A cancelled caller waits for the
end of such a call, because the thread uses the connection. If a cancel or a ``dhaga.Timeout`` ends the wait for an
answer, the request is abandoned, and the connection remains usable.
As with threads, the requests over one connection are served one after the other. The connection's lock parks only if
the connection was created after ``install()``; only one dhaga at a time may use an older connection. In a patched
program, a post-import hook calls ``install()`` as soon as ldap is imported.
"""

from __future__ import annotations

from functools import wraps
from typing import Any

import ldap
from ldap.ldapobject import SimpleLDAPObject

from .._kernel.wait.current import clock_here, parking_waiter
from .._sync.lock import Lock
from .._workers.offload import shared
from ..select import POLLIN, poll

__all__ = ["install", "uninstall"]

LOCAL = frozenset({"get_option", "set_option", "unbind_ext"})
"""Calls that need no connection."""

_standard_call = SimpleLDAPObject._ldap_call
_standard_lock = ldap.LDAPLockBaseClass


def install() -> None:
    """Make calls on all connections park. Plain OS threads block as before."""
    SimpleLDAPObject._ldap_call = call
    ldap.LDAPLockBaseClass = Lock


def uninstall() -> None:
    """Restore the standard method and lock."""
    SimpleLDAPObject._ldap_call = _standard_call
    ldap.LDAPLockBaseClass = _standard_lock


@wraps(_standard_call)
def call(self: Any, function: Any, *args: Any, **options: Any) -> Any:
    """Call a function of libldap. Parks: until the answer comes (``poll``), or while an OS thread makes
    the call (``offload``).
    """
    if parking_waiter() is None:
        return _standard_call(self, function, *args, **options)
    name = function.__name__

    @wraps(function)
    def parking(*args: Any, **options: Any) -> Any:
        if name == "result4":
            return wait_for_result(self._l, *args, **options)
        if name.endswith("_s") or (name not in LOCAL and self._l.get_option(ldap.OPT_DESC) < 0):
            return shared.finish(function, *args, **options)
        return function(*args, **options)

    return _standard_call(self, parking, *args, **options)


def wait_for_result(connection: Any, message: int, every: int = 1, timeout: float = -1, *more: Any) -> Any:
    """Return the result of the request ``message``. With ``ldap.RES_ANY`` as ``message``, return the next result of any
    request.

    ``timeout`` is in seconds; a negative ``timeout`` means no limit. Parks: until the result comes (``poll``).
    Raises: ldap.TIMEOUT.
    """
    clock = clock_here()
    deadline = clock() + timeout
    polled = poll()
    polled.register(connection.get_option(ldap.OPT_DESC), POLLIN)
    while True:
        result = connection.result4(message, every, 0, *more)
        left = deadline - clock()
        if timeout > 0 and left <= 0 and result[0] is None:
            raise ldap.TIMEOUT({"desc": "Timed out"})
        if result[0] is not None or timeout == 0:
            return result
        try:
            polled.poll(None if timeout < 0 else left * 1000)
        except BaseException:
            if message != ldap.RES_ANY:
                connection.abandon_ext(message)
            raise
