"""Let gevent's own tests, and the harness in its wheel, import Dhaga's ``gevent``.

The harness uses some helpers of gevent that are no API (what Python this is, lazy attributes): they are taken from the
wheel as they are. What the harness has of the hub is Dhaga's.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any

FROM_WHEEL = ("_compat", "_util", "_config", "testing", "tests")


class WheelFinder(MetaPathFinder):
    """Finds the harness, the tests and what these need, in the wheel."""

    def __init__(self, wheel: Sequence[str]) -> None:
        self.wheel = wheel

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: Any = None) -> ModuleSpec | None:
        parts = name.split(".")
        if len(parts) < 2 or parts[0] != "gevent" or parts[1] not in FROM_WHEEL:
            return None
        return PathFinder.find_spec(name, self.wheel if len(parts) == 2 else path)


def stand_in(name: str, **content: object) -> None:
    """Put a module of this name beside those of the wheel."""
    module = sys.modules[name] = ModuleType(name)
    vars(module).update(content)


def main() -> None:
    wheel = PathFinder.find_spec("gevent")
    assert wheel and wheel.submodule_search_locations
    places = [*wheel.submodule_search_locations]

    import dhaga.compat

    dhaga.compat.install("gevent")
    sys.meta_path.insert(0, WheelFinder(places))

    import gevent.fileobject as files
    import gevent.hub as hub
    import gevent.lock as locks
    import gevent.select as selects

    # `from gevent import testing` looks in dhaga.compat.gevent, which has what is loaded already.
    stand_in("gevent.testing.hub", QuietHub=hub.Hub)
    stand_in("gevent._ffi")
    stand_in("gevent._ffi.callback", callback=object)
    stand_in("gevent._hub_local", get_hub_class=lambda: hub.Hub, get_hub_if_exists=hub.get_hub_if_exists)
    # Private classes that interpret what the public ones are called with.
    stand_in("gevent._fileobjectcommon", OpenDescriptor=files.FileObjectBlock, WriteallMixin=None)
    stand_in("gevent._fileobjectposix", GreenOpenDescriptor=files.FileObjectPosix)
    # What tests look at before they begin with what is public.
    locks.RLock._block = locks.Semaphore()
    # What tests replace, so that select() has no short cut past the poller.
    vars(selects)["_original_select"] = None
    vars(hub)["set_default_hub_class"] = lambda kind: None
    for name in FROM_WHEEL:
        import_module(f"gevent.{name}")


main()
