"""Patches the standard library, so that its threads are dhagas and its waits park."""

from __future__ import annotations

from ._patch_table import TABLE, Row
from ._patcher import PatchError, is_patched, original, patch, patched_imports, unpatch

__all__ = ["TABLE", "PatchError", "Row", "is_patched", "original", "patch", "patched_imports", "unpatch"]
