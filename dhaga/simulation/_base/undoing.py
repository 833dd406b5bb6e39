"""The end of a simulation: the attributes that it has set, and the calls that undo its parts.

Not a standard ``ExitStack``: it sets attributes of the errors that it lets through, which some errors refuse.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class Undoing:
    """Calls that undo the parts of a simulation, the last first."""

    def __init__(self) -> None:
        self.calls: list[tuple[Callable[..., object], tuple[Any, ...]]] = []

    def callback(self, function: Callable[..., object], *arguments: Any) -> None:
        """Register a call."""
        self.calls.append((function, arguments))

    def set(self, owner: Any, name: str, value: Any) -> None:
        """Set an attribute of a module or class, which must have it, until the end."""
        self.callback(setattr, owner, name, getattr(owner, name))
        setattr(owner, name, value)

    def close(self) -> None:
        """Make all calls, even if some fail. Raises: the error of the last one that failed."""
        try:
            while self.calls:
                function, arguments = self.calls.pop()
                function(*arguments)
        finally:
            if self.calls:
                self.close()
