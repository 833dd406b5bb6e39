"""python-ldap on dhagas: ``install()`` makes its connections park where libldap would wait for an answer.

Each request of python-ldap has two halves: it is sent, and ``result4`` waits for the answer. A dhaga asks libldap
without waiting, and parks on the connection's descriptor until the server answers. What has no such halves runs in an
OS thread while its caller is parked (``dhaga.offload``): the first request of a connection, which connects, and the
calls whose names end in ``_s``, such as ``start_tls_s``. A cancel waits for the end of such a call, because that thread
uses the connection. A request whose wait ends by a cancel or a timeout is abandoned; its connection can be used on.
As in threads, the requests over one connection are served one after the other. Its lock is ours from ``install()`` on:
a connection that was opened before belongs to one dhaga. Under ``dhaga.monkey.patch`` a post-import hook installs it
as soon as ldap is imported.
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
    """Make all connections of the process park. A plain OS thread blocks as before."""
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
    """Return the result of a request, or of any for ``ldap.RES_ANY``; ``timeout``: in seconds, negative: none.

    Parks: until it is there (``poll``). Raises: ldap.TIMEOUT.
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
