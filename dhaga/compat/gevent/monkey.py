"""``gevent.monkey``: the patch of Dhaga by gevent's names.

There is one patch for all: each ``patch_…`` applies it whole, and a second one changes nothing.
"""

from __future__ import annotations

from typing import Any

from ... import monkey as ours

__all__ = [
    "get_original",
    "is_anything_patched",
    "is_module_patched",
    "is_object_patched",
    "patch_all",
    "patch_builtins",
    "patch_contextvars",
    "patch_dns",
    "patch_module",
    "patch_os",
    "patch_queue",
    "patch_select",
    "patch_selectors",
    "patch_signal",
    "patch_socket",
    "patch_ssl",
    "patch_subprocess",
    "patch_sys",
    "patch_thread",
    "patch_time",
]


class MonkeyPatchWarning(RuntimeWarning):
    """Never issued: what comes too late for the patch is a PatchError."""


def patch_all(*_: object, **which: object) -> bool:
    """Patch the standard library, unless it is patched. Returns: True. Raises: PatchError where it comes too late."""
    if not ours.is_patched():
        ours.patch()
    return True


patch_builtins = patch_contextvars = patch_dns = patch_os = patch_queue = patch_select = patch_all
patch_selectors = patch_signal = patch_socket = patch_ssl = patch_subprocess = patch_sys = patch_thread = patch_all
patch_time = patch_all


def patch_module(*_: object, **__: object) -> bool:
    """Not available."""
    raise NotImplementedError("dhaga.monkey patches by a table of its own; put names into a module by hand instead")


def is_anything_patched() -> bool:
    """Return whether the standard library is patched."""
    return ours.is_patched()


def is_module_patched(name: str) -> bool:
    """Return whether names of a module are patched."""
    return ours.is_patched() and any(row.module == name for row in ours.TABLE)


def is_object_patched(module: str, name: str) -> bool:
    """Return whether a name of a module is patched."""
    return ours.is_patched() and any(row.module == module and name in row.names for row in ours.TABLE)


def get_original(module: str, names: Any) -> Any:
    """Return what a name of a module was before the patch; a list for a list of names."""
    if isinstance(names, str):
        return ours.original(module, names)
    return [ours.original(module, name) for name in names]
