"""Refuses gevent's and eventlet's patches while Dhaga's patch is active, because a mixture of two patches fails."""

from __future__ import annotations

import sys
from typing import Any

from .._kernel.errors import PatchError
from ._other_hubs import PATCHERS, WAY_OUT, is_ours

HELPERS = {"patch_item", "patch_module", "patch_function"}
"""Functions of gevent and eventlet that are allowed, because other packages use them to patch their own modules."""


class RefusedPatch:
    """Replacement of a patching function of gevent or eventlet. It raises PatchError while Dhaga's patch is active."""

    active = False

    def __init__(self, package: str, own: Any) -> None:
        self.package: str = package
        self.own: Any = own

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.active:
            raise PatchError(
                f"{self.own.__module__}.{self.own.__name__}() is called in a program that dhaga has patched, and of "
                f"two patches neither works:\n{WAY_OUT.format(self.package)}"
            )
        return self.own(*args, **kwargs)


def install() -> None:
    """Replace the patching functions of gevent and eventlet in imported modules. From: the post-import hook."""
    RefusedPatch.active = True
    for package, (patcher, _) in PATCHERS.items():
        # eventlet has its patching function in both modules.
        for module in (sys.modules.get(package), sys.modules.get(patcher)):
            if module is not None and not is_ours(package):
                refuse_patches_in(module, package)


def refuse_patches_in(module: Any, package: str) -> None:
    """In a module, replace each function that patches the standard library with a ``RefusedPatch``."""
    for name, function in list(vars(module).items()):
        patches = name.startswith(("patch_", "monkey_patch")) and name not in HELPERS
        if patches and callable(function) and not isinstance(function, RefusedPatch):
            setattr(module, name, RefusedPatch(package, function))


def uninstall() -> None:
    """Allow the patches of gevent and eventlet again."""
    RefusedPatch.active = False
