"""The end of a simulation: the attributes to restore, and the calls that undo its parts.

The standard ``ExitStack`` cannot be used: it sets attributes of the errors that pass through, and some errors refuse
new attributes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class Undoing:
    """Calls that undo the parts of a simulation. The call that was registered last is made first."""

    def __init__(self) -> None:
        self.calls: list[tuple[Callable[..., object], tuple[Any, ...]]] = []

    def callback(self, function: Callable[..., object], *arguments: Any) -> None:
        """Register a call for the end."""
        self.calls.append((function, arguments))

    def set(self, owner: Any, name: str, value: Any) -> None:
        """Set an existing attribute of a module or class until the end."""
        self.callback(setattr, owner, name, getattr(owner, name))
        setattr(owner, name, value)

    def close(self) -> None:
        """Make all calls, even if some fail. Raises: the error of the last call that failed."""
        try:
            while self.calls:
                function, arguments = self.calls.pop()
                function(*arguments)
        finally:
            if self.calls:
                self.close()
