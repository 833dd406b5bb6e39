"""``gevent.events``: events that are sent to subscribers before and after ``patch_all``.

Events of gevent's monitor thread are never sent. ``dhaga.debug`` has a watchdog that reports blocked event loops.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

__all__ = [
    "DoNotPatch", "GeventDidPatchAllEvent", "GeventDidPatchBuiltinModulesEvent", "GeventDidPatchModuleEvent",
    "GeventPatchEvent", "GeventWillPatchAllEvent", "GeventWillPatchModuleEvent", "notify", "subscribers",
]  # fmt: skip

subscribers: list[Callable[[Any], object]] = []
"""Functions that ``notify`` calls with each event."""


def notify(event: Any) -> None:
    """Call the subscribers. Raises: an error that a subscriber raises, such as DoNotPatch."""
    for subscriber in list(subscribers):
        subscriber(event)


class DoNotPatch(BaseException):
    """The error with which a subscriber prevents the patch: ``patch_all`` then patches nothing."""


class GeventPatchEvent:
    """Event about a patched object (``source``) and its replacement (``target``)."""

    def __init__(self, source: Any, target: Any) -> None:
        self.source: Any = source
        self.target: Any = target

    def __repr__(self) -> str:
        return f"<{type(self).__name__} source={self.source!r} target={self.target!r} at {id(self):#x}>"


class GeventWillPatchEvent(GeventPatchEvent):
    """Event before a patch."""


class GeventDidPatchEvent(GeventPatchEvent):
    """Event after a patch."""


class GeventWillPatchModuleEvent(GeventWillPatchEvent):
    """Event before names of a standard module are patched."""

    def __init__(self, module_name: str, source: ModuleType, target: ModuleType, items: list[str]) -> None:
        super().__init__(source, target)
        self.module_name: str = module_name
        self.target_item_names: list[str] = items


class GeventDidPatchModuleEvent(GeventDidPatchEvent):
    """Event after names of a standard module were patched."""

    def __init__(self, module_name: str, source: ModuleType, target: ModuleType) -> None:
        super().__init__(source, target)
        self.module_name = module_name


class AllEvent:
    """Mixin for events about ``patch_all``; it holds the arguments of the call."""

    def __init__(self, patch_all_arguments: Mapping[str, Any], patch_all_kwargs: Mapping[str, Any]) -> None:
        super().__init__(None, None)  # type: ignore[call-arg]
        self.patch_all_arguments: Mapping[str, Any] = patch_all_arguments
        self.patch_all_kwargs: Mapping[str, Any] = patch_all_kwargs

    def will_patch_module(self, module_name: str) -> bool:
        """Return whether the caller of ``patch_all`` asked for this module."""
        return bool(self.patch_all_arguments.get(module_name, False))


class GeventWillPatchAllEvent(AllEvent, GeventWillPatchEvent):
    """Event at the beginning of ``patch_all``."""


class GeventDidPatchBuiltinModulesEvent(AllEvent, GeventDidPatchEvent):
    """Event after ``patch_all`` has patched the standard modules."""


class GeventDidPatchAllEvent(AllEvent, GeventDidPatchEvent):
    """Event at the end of ``patch_all``."""
