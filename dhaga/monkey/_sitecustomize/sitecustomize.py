"""Patches the standard library before any other code runs, and then runs the ``sitecustomize`` that this one hides.

``_early.restart`` puts this folder first on PYTHONPATH, so that ``site`` imports this module at the start of Python.
"""

from __future__ import annotations

from dhaga.monkey import _early

_early.begin()
