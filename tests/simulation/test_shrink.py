"""Shrinking: few switches and faults are left, and the run fails as before."""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Sequence
from typing import Any

import pytest

from dhaga.simulation import Settings, current, search, shrink
from dhaga.simulation._schedule.switches import Switch, switches_from
from dhaga.simulation._search.shrink import Shrinking
from tests.kit.races import RACES

pytestmark = pytest.mark.once


def numbered(count: int) -> list[Switch]:
    return [Switch(1, True, number, 2) for number in range(count)]


@pytest.mark.parametrize("needed", [set(), {0}, {19}, {3, 11}, {0, 7, 8, 19}])
def test_only_the_needed_switches_are_left(needed: set[int]) -> None:
    def fails(switches: Sequence[Switch]) -> Sequence[Switch] | None:
        return switches if needed <= {switch.steps for switch in switches} else None

    assert {switch.steps for switch in Shrinking(fails, numbered(20)).run()} == needed


def test_switches_without_effect_are_dropped_with_others() -> None:
    tried = []

    def fails(switches: Sequence[Switch]) -> Sequence[Switch] | None:
        tried.append(len(switches))
        return [switch for switch in switches if switch.steps < 2] or None

    assert Shrinking(fails, numbered(16)).run()[0].steps in (0, 1)
    assert len(tried) < 10


def test_in_the_end_each_item_is_needed_though_halves_took_all_runs() -> None:
    runs = []

    def fails(switches: Sequence[Switch]) -> Sequence[Switch] | None:
        runs.append(switches)
        left = {switch.steps for switch in switches}
        # Each of the last ones can only go once the one before it has.
        return switches if 0 in left and all(number - 1 in left or number % 5 == 0 for number in left) else None

    small = Shrinking(fails, numbered(60)).drop_single()
    assert {switch.steps for switch in small} == {0}
    assert all(fails([switch for switch in small if switch != each]) is None for each in small)


@pytest.mark.parametrize("name", ["lost_update", "check_then_act", "lock_order", "torn_write"])
def test_a_race_of_two_threads_ends_with_few_switches(name: str) -> None:
    findings = search(RACES[name], 500)
    small = shrink(RACES[name], Settings(), findings.failures[0])
    assert small.kind == findings.failures[0].kind
    assert 1 <= len(switches_from(small.switches)) <= 2
    assert small.lines


def test_a_failure_that_cannot_be_repeated_stays_unchanged() -> None:
    findings = search(RACES["lost_update"], 500)
    failure = findings.failures[0]
    assert shrink(lambda: None, Settings(), failure) is failure


# ---- faults

FAULTS: dict[str, Any] = {
    "hosts": {"shop": "", "other": ""},
    "faults": [
        {"kind": "partition", "between": ["other", "shop"], "every": 2, "seconds": [0.1, 1]},
        {"kind": "reset", "port": 80, "every": 3},
        {"kind": "stall", "host": "main", "every": 2, "seconds": [0.1, 1]},
        {"kind": "kill", "host": "shop", "every": 5, "seconds": [0.1, 1]},
        {"kind": "disk-full", "host": "shop", "every": 3, "seconds": 1},
    ],
}


def hold_connections() -> None:
    held = []
    with socket.create_server(("", 80)) as listener:
        while True:
            held.append(listener.accept())


def fails_by_a_kill_and_a_reset() -> None:
    shop, resets = current().network.hosts.find("shop"), 0
    ends_at = time.monotonic() + 30
    shop.start(hold_connections)
    while time.monotonic() < ends_at:
        with contextlib.suppress(ConnectionRefusedError, TimeoutError):
            try:
                with socket.create_connection(("shop", 80), 1) as sock:
                    sock.recv(1)
            except ConnectionResetError:
                resets += 1
        time.sleep(0.1)
        assert shop.starts < 2 or resets < 3
    shop.kill()


@pytest.mark.long("runs a program some hundred times")
def test_only_the_needed_faults_are_left() -> None:
    settings = Settings(preempt=None, faults=FAULTS)
    failure = search(fails_by_a_kill_and_a_reset, 100, settings).failures[0]
    small = shrink(fails_by_a_kill_and_a_reset, settings, failure)
    needed = small.faults.split(",")
    assert small.kind == "AssertionError" and len(needed) == 3 < len(failure.faults.split(","))
    assert {number.partition(".")[0] for number in needed} == {"2", "4"}
    assert all(f"fault {number}, " in small.report for number in needed) and "reset of port 80" in small.report
