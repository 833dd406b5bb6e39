"""What the microthreads do where their birth is measured: as in programs, a function in Python.

A builtin such as ``abs`` needs no frame of Python. A greenlet that calls it directly (``eventlet.spawn_n``, all of
gevent's) is spared the memory that CPython maps for the frames of each, which is most of its cost.
"""

from __future__ import annotations


def same(number: int) -> int:
    """Return what was given."""
    return number
