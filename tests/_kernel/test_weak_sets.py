"""The members of WeakSets that other threads add to."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from typing import Any

from dhaga._kernel.weak_sets import members


class Member:
    """What has a weak reference."""


def test_a_member_added_while_the_set_is_read_does_not_matter() -> None:
    kept = [Member() for _ in range(3)]

    class Growing(weakref.WeakSet[Any]):
        """Another thread adds in the middle of the first reading."""

        def __iter__(self) -> Iterator[Any]:
            for each in super().__iter__():
                if len(kept) == 3:
                    kept.append(Member())
                    self.add(kept[-1])
                yield each

    growing = Growing(kept)
    assert {*kept[:3]} <= set(members(growing)) <= {*kept} and len(kept) == 4  # 3.15 reads a copy
