"""Patch the standard library, so that its threads are dhagas and its waits park."""

from __future__ import annotations

from ._patcher import TABLE, PatchError, Row, is_patched, original, patch, patched_imports, unpatch

__all__ = ["TABLE", "PatchError", "Row", "is_patched", "original", "patch", "patched_imports", "unpatch"]
