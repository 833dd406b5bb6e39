"""``gevent.events``: events for subscribers, before and after the patch.

Events of gevent's monitor thread never come: ``dhaga.debug`` has a watchdog for event loops that block.
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
"""Functions that are called with each event."""


def notify(event: Any) -> None:
    """Call the subscribers. Raises: the error of a subscriber, such as DoNotPatch."""
    for subscriber in list(subscribers):
        subscriber(event)


class DoNotPatch(BaseException):
    """Raised by a subscriber before the patch: ``patch_all`` then patches nothing."""


class GeventPatchEvent:
    """Event about a patched object (``source``) and its replacement (``target``)."""

    def __init__(self, source: Any, target: Any) -> None:
        self.source: Any = source
        self.target: Any = target

    def __repr__(self) -> str:
        return f"<{type(self).__name__} source={self.source!r} target={self.target!r} at {id(self):#x}>"


class GeventWillPatchEvent(GeventPatchEvent):
    """Something will be patched."""


class GeventDidPatchEvent(GeventPatchEvent):
    """Something was patched."""


class GeventWillPatchModuleEvent(GeventWillPatchEvent):
    """Names of a standard module will be patched."""

    def __init__(self, module_name: str, source: ModuleType, target: ModuleType, items: list[str]) -> None:
        super().__init__(source, target)
        self.module_name: str = module_name
        self.target_item_names: list[str] = items


class GeventDidPatchModuleEvent(GeventDidPatchEvent):
    """Names of a standard module were patched."""

    def __init__(self, module_name: str, source: ModuleType, target: ModuleType) -> None:
        super().__init__(source, target)
        self.module_name = module_name


class AllEvent:
    """Mixin for events about ``patch_all``: its arguments."""

    def __init__(self, patch_all_arguments: Mapping[str, Any], patch_all_kwargs: Mapping[str, Any]) -> None:
        super().__init__(None, None)  # type: ignore[call-arg]
        self.patch_all_arguments: Mapping[str, Any] = patch_all_arguments
        self.patch_all_kwargs: Mapping[str, Any] = patch_all_kwargs

    def will_patch_module(self, module_name: str) -> bool:
        """Return whether ``patch_all`` was asked for this module."""
        return bool(self.patch_all_arguments.get(module_name, False))


class GeventWillPatchAllEvent(AllEvent, GeventWillPatchEvent):
    """``patch_all`` begins."""


class GeventDidPatchBuiltinModulesEvent(AllEvent, GeventDidPatchEvent):
    """``patch_all`` has patched the standard modules."""


class GeventDidPatchAllEvent(AllEvent, GeventDidPatchEvent):
    """``patch_all`` is done."""
