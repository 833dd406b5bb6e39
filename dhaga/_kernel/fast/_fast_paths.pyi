"""Types of ``_fast_paths.c``, the compiled module."""

from collections.abc import Callable
from typing import Any

TOLERATED: int
FIRED_AT_ONCE: int
NORMAL: int
READ: int
WRITE: int
RECORD: int
PIECE: int

class Guard:
    """Only on free-threaded builds."""

    def __enter__(self) -> None: ...
    def __exit__(self, *error: object) -> None: ...

def layout(type: type, /) -> None: ...
def twin(owner: type | str, name: str, function: Callable[..., Any], doc: str, /) -> Any: ...
def freeze() -> None: ...
