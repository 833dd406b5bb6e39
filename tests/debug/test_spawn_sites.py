"""Where dhagas were spawned, once that is recorded."""

from __future__ import annotations

import dhaga
from dhaga import debug
from dhaga.testing import virtual_clock


def test_where_a_dhaga_was_spawned_is_told_once_that_is_recorded() -> None:
    def spawns(name: str) -> dhaga.Dhaga[None]:
        return dhaga.spawn(dhaga.sleep, 1, name=name)

    with virtual_clock():
        early = spawns("early")
        debug.record_origins()
        late = spawns("late")
        debug.record_origins(False)
        snapshot = debug.snapshot()
        early.join()
        late.join()
    assert snapshot.find("early").spawned == ()
    assert snapshot.find("late").spawned[-1].function == "spawns"
