"""The function that microthreads call when the cost of a spawn is measured: a Python function, as in real programs.

A builtin such as ``abs`` needs no Python frame. If a greenlet calls ``abs`` directly (``eventlet.spawn_n``, every
gevent greenlet), CPython maps no memory for the greenlet's frames. This memory is most of the greenlet's cost.
"""

from __future__ import annotations


def same(number: int) -> int:
    """Return the argument."""
    return number
