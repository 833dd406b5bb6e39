"""``gevent.monkey``: functions with gevent's names that apply Dhaga's patch of the standard library.

There is only one patch. Each ``patch_…`` function except ``patch_module`` applies the whole patch, and a second call
changes nothing.
"""

from __future__ import annotations

import _threading_local
import sys
import threading
import warnings
from collections.abc import Callable
from typing import Any

from ... import monkey as ours
from . import events
from .local import local

__all__ = [
    "get_original", "is_anything_patched", "is_module_patched", "is_object_patched", "patch_all", "patch_builtins",
    "patch_contextvars", "patch_dns", "patch_module", "patch_os", "patch_queue", "patch_select", "patch_selectors",
    "patch_signal", "patch_socket", "patch_ssl", "patch_subprocess", "patch_sys", "patch_thread", "patch_time",
]  # fmt: skip


__path__: list[str] = []  # makes this module a package for ``import``: gevent.monkey.api is this module


class MonkeyPatchWarning(RuntimeWarning):
    """Warning about a later ``patch_all`` with different arguments. A patch that is too late raises PatchError."""


saved: dict[str, dict[str, Any]] = {}
"""For each patched module, the originals of its patched names."""

SETTINGS = "_gevent_saved_patch_all_module_settings"
DEFAULTS = {
    **dict.fromkeys(("socket", "dns", "time", "select", "thread", "os", "ssl", "subprocess"), True),
    "sys": False,
    **dict.fromkeys(("builtins", "signal", "queue", "contextvars"), True),
    "aggressive": True,
    "Event": True,
}


def patch_all(*positional: object, **which: object) -> bool:
    """Patch the standard library unless it is already patched, and notify the subscribers in ``gevent.events``.

    Returns: True; False if nothing is patched, because this is a second call or a subscriber raises DoNotPatch. A
    second call with different arguments also warns. Raises: PatchError if it is too late to patch.
    """
    settings = {**DEFAULTS, **dict(zip(DEFAULTS, positional, strict=False)), **which}
    if SETTINGS in saved:
        if saved[SETTINGS] != settings:
            warnings.warn("Patching more than once: there is one patch, which stays", MonkeyPatchWarning, stacklevel=2)
        return False
    known = {name: value for name, value in settings.items() if name in DEFAULTS}
    extra = {name: value for name, value in settings.items() if name not in DEFAULTS}
    try:
        events.notify(events.GeventWillPatchAllEvent(known, extra))
        for row in ours.TABLE:
            source = sys.modules.get(row.module)
            if source is not None and row.module not in saved:
                events.notify(events.GeventWillPatchModuleEvent(row.module, source, source, [*row.names]))
    except events.DoNotPatch:
        return False
    apply()
    saved[SETTINGS] = settings
    for name in [name for name in saved if name != SETTINGS]:
        events.notify(events.GeventDidPatchModuleEvent(name, sys.modules[name], sys.modules[name]))
    events.notify(events.GeventDidPatchBuiltinModulesEvent(known, extra))
    events.notify(events.GeventDidPatchAllEvent(known, extra))
    return True


def apply(*_: object, **__: object) -> bool:
    """Apply Dhaga's patch unless it is already applied. Returns: True."""
    if not ours.is_patched():
        ours.patch()
    for row in ours.TABLE:
        if row.module in sys.modules:
            known = saved.setdefault(row.module, {})
            here = [name for name in row.names if name not in known and name in vars(sys.modules[row.module])]
            known.update({name: ours.original(row.module, name) for name in here})
    # Set gevent's ``local``, which can be copied.
    vars(threading)["local"] = vars(_threading_local)["local"] = local
    return True


patch_builtins: Callable[..., bool] = apply
patch_contextvars: Callable[..., bool] = apply
patch_dns: Callable[..., bool] = apply
patch_os: Callable[..., bool] = apply
patch_queue: Callable[..., bool] = apply
patch_select: Callable[..., bool] = apply
patch_selectors: Callable[..., bool] = apply
patch_signal: Callable[..., bool] = apply
patch_socket: Callable[..., bool] = apply
patch_ssl: Callable[..., bool] = apply
patch_subprocess: Callable[..., bool] = apply
patch_sys: Callable[..., bool] = apply
patch_thread: Callable[..., bool] = apply
patch_time: Callable[..., bool] = apply


def patch_module(*_: object, **__: object) -> bool:
    """Raise NotImplementedError, because Dhaga patches only the names in its own table."""
    raise NotImplementedError("dhaga.monkey patches by a table of its own; put names into a module by hand instead")


def is_anything_patched() -> bool:
    """Return whether the standard library is patched."""
    return ours.is_patched()


def is_module_patched(name: str) -> bool:
    """Return whether names of a module are patched."""
    return name in saved or (ours.is_patched() and any(row.module == name for row in ours.TABLE))


def is_object_patched(module: str, name: str) -> bool:
    """Return whether a name of a module is patched."""
    if name in saved.get(module, ()):
        return True
    return ours.is_patched() and any(row.module == module and name in row.names for row in ours.TABLE)


def get_original(module: str, names: Any) -> Any:
    """Return the original of a patched name; for a list of names, a list of originals."""
    if isinstance(names, str):
        return ours.original(module, names)
    return [ours.original(module, name) for name in names]
