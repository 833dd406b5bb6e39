"""Packages of the extra `examples`, which are imported when they are first used: `--help` works without them."""

from __future__ import annotations

from importlib import import_module
from typing import Any


class Late:
    """A module that is imported at its first attribute: `zstandard: Any = Late("zstandard")`."""

    def __init__(self, name: str) -> None:
        self.__name__ = name

    def __getattr__(self, attribute: str) -> Any:
        """Import the module and return its attribute. Raises: SystemExit that says what to install."""
        if attribute.startswith("__"):  # of the protocols of inspect and copy
            raise AttributeError(attribute)
        package = self.__name__.partition(".")[0]
        try:
            module = import_module(self.__name__)
        except ModuleNotFoundError as error:
            if (error.name or "").partition(".")[0] != package:
                raise
            raise SystemExit(f"this example needs {package}: pip install 'dhaga[examples]'") from error
        value = getattr(module, attribute)
        setattr(self, attribute, value)
        return value
