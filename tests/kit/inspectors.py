"""Code shared by the tests of the inspector."""

from __future__ import annotations

import dhaga


def park_all(scheduler: dhaga.Scheduler, *dhagas: dhaga.Dhaga) -> None:
    """Wait until all ``dhagas`` are parked."""
    while not all(each.parked for each in dhagas):
        scheduler.spawn(dhaga.sleep, 0).join()
