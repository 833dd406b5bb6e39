"""Patch before any other code, and then run the ``sitecustomize`` that this one hides. From: ``site``, at the start.

``_early.restart`` puts this folder first on PYTHONPATH.
"""

from __future__ import annotations

from dhaga.monkey import _early

_early.begin()
