"""Activities: what goes on until it is stopped."""

from __future__ import annotations

from types import TracebackType
from typing import Self


class Activity:
    """What goes on until ``stop()``, or until the end of its ``with`` block."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """End it; once more, that does nothing."""
        raise NotImplementedError
