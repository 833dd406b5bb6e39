"""The standard library: replaced for a simulation, and given back."""

from __future__ import annotations

import datetime
import random
import sys
import threading
import time
import types
import uuid

import pytest

import dhaga
from dhaga import monkey
from dhaga._kernel.process import preemption_watcher
from dhaga._kernel.run import preemption
from dhaga.simulation import Simulation, search
from dhaga.simulation._standard import standard


def state() -> list[object]:
    names = [threading.Lock, threading.excepthook, dhaga.excepthook, threading._counter]  # type: ignore[attr-defined]
    clocks = [time.monotonic, time.localtime, vars(datetime.datetime)["now"], vars(datetime.date)["today"]]
    return [*names, *clocks, random.Random.seed, random.getstate(), uuid._node, sys.gettrace()]  # type: ignore[attr-defined]


@pytest.mark.parametrize("error", [None, KeyError("x"), SystemExit(1)])
def test_everything_is_as_before_after_the_block(error: BaseException | None) -> None:
    before = state()
    try:
        with Simulation(0):
            assert monkey.is_patched() and time.monotonic is not before[4]
            if error is not None:
                raise error
    except (KeyError, SystemExit):
        pass
    assert state() == before
    assert not monkey.is_patched()


def attributes_of(modules: list[types.ModuleType]) -> dict[str, object]:
    """Return the attributes of modules, and of the classes that are made there."""
    found: dict[str, object] = {}
    for module in modules:
        for name, value in list(vars(module).items()):
            found[f"{module.__name__}.{name}"] = value
            if isinstance(value, type) and value.__module__ == module.__name__:
                found |= {f"{module.__name__}.{name}.{each}": method for each, method in list(vars(value).items())}
                found[f"{module.__name__}.{name}.__bases__"] = [*value.__bases__]
    return {name: value for name, value in found.items() if not isinstance(value, types.ModuleType)}


def changes(before: dict[str, object], now: dict[str, object]) -> set[str]:
    """Return the names of attributes that are another object, are new or are gone; bases are compared."""
    names = before.keys() | now.keys()
    return {
        name
        for name in names
        if before.get(name) is not now.get(name) and (name[-9:] != "__bases__" or before[name] != now[name])
    }


def test_a_simulation_changes_of_dhaga_only_what_is_meant_to_be_set() -> None:
    standard.patch_late()
    try:
        names = [key for key in sys.modules if key.startswith("dhaga") and not key.startswith("dhaga.simulation")]
        modules = [sys.modules[name] for name in names]
        before = attributes_of(modules)
        with Simulation(0):
            changed = changes(before, attributes_of(modules))
        records = ("dhaga._kernel.hooks.", "dhaga._kernel.outside.")
        # The last is a hook of programs.
        assert {name for name in changed if not name.startswith(records)} == {"dhaga.excepthook"}
        assert changes(before, attributes_of(modules)) == set()
    finally:
        monkey.unpatch()


def test_an_enclosing_block_replaces_it_once() -> None:
    with standard.replaced():
        lock = threading.Lock
        with Simulation(0):
            assert threading.Lock is lock
        assert threading.Lock is lock and time.monotonic() > 0
    assert not monkey.is_patched()


def test_a_patched_program_stays_patched() -> None:
    standard.patch_late()
    try:
        with Simulation(0):
            pass
        assert monkey.is_patched()
    finally:
        monkey.unpatch()


def test_a_hub_that_other_tests_have_imported_is_no_concern_of_a_simulation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gevent", types.ModuleType("gevent"))
    with Simulation(0):  # a warning is an error here
        assert time.monotonic() > 0


def test_nothing_is_preempted_by_real_time_in_a_patched_program() -> None:
    def sleep_in_a_thread() -> None:
        thread = threading.Thread(target=time.sleep, args=(1,))
        thread.start()
        thread.join()

    standard.patch_late()
    preemption_watcher.turn_on()
    try:
        watcher = preemption_watcher.watcher
        assert watcher is not None
        with standard.replaced():
            assert preemption_watcher.watcher is None and preemption.default_quantum is None
            assert search(sleep_in_a_thread, 3).complete  # not even in the forked process of a run
        assert preemption_watcher.watcher is not None and preemption.default_quantum == preemption.QUANTUM
    finally:
        monkey.unpatch()


def test_classes_that_were_made_before_work() -> None:
    class Early(threading.Thread):
        def run(self) -> None:
            time.sleep(3600)
            self.done = True

    with Simulation(0):
        thread = Early()
        thread.start()
        thread.join()
    assert thread.done
    assert Early.__bases__ == (threading.Thread,)
