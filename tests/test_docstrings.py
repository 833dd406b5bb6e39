"""The ``>>>`` examples in the docstrings of public names run as they stand, and leave nothing behind.

What is left (a dhaga, a thread, a log line) is found by ``nothing_left`` of ``conftest.py``, as after any other test.
"""

from __future__ import annotations

import doctest
import importlib
import inspect
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import dhaga
from tests.kit.scripts import prints

PACKAGE = Path(dhaga.__file__).parent

LEFT_OUT = ("dhaga.integrations", "dhaga.http.requests", "dhaga.pytest_plugin", "dhaga.subprocess")
LEFT_OUT += ("dhaga.compat.gevent.subprocess",)
"""Modules that import other packages, and one that runs functions of the standard library, docstrings and all."""

WITH_EXAMPLE = """
dhaga: spawn sleep current park Scope race Timeout fail_after move_on_after shield offload offloaded await_ Scheduler
dhaga: spawn_later wait as_completed CapacityLimiter RateLimiter
dhaga.aio: run_in_dhaga
dhaga.threading: Lock RLock Condition Semaphore Event Barrier local
dhaga.queue: Queue SimpleQueue
dhaga.pool: Pool
dhaga.futures: Executor
dhaga.metrics: RateMeter
dhaga.servers: TCPServer
"""
"""Names whose docstring shows how they are used; others may."""

FINDER = doctest.DocTestFinder(exclude_empty=True)


def public_modules() -> Iterator[str]:
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
        name = ".".join(parts).removesuffix(".__init__")
        if not any(part.startswith("_") for part in name.split(".")) and not name.startswith(LEFT_OUT):
            yield name


def public_names(module: ModuleType) -> dict[str, Any]:
    if names := getattr(module, "__all__", None):
        return {name: getattr(module, name) for name in names}
    own = {name: each for name, each in vars(module).items() if getattr(each, "__module__", "") == module.__name__}
    return {name: each for name, each in own.items() if not name.startswith("_")}


def examples_of(name: str, value: Any, namespace: dict[str, Any]) -> list[doctest.DocTest]:
    """Return the examples of a class with its methods, or of a function; of other values none."""
    ours = str(getattr(value, "__module__", "")).startswith("dhaga")
    if not ours or not (inspect.isclass(value) or inspect.isroutine(value)):
        return []
    found = FINDER.find(value, name, module=False, globs=namespace)
    return [test for test in found if test.examples and "._" not in test.name]


def all_examples() -> Iterator[doctest.DocTest]:
    """Give each example once, under the first of the public names that lead to it."""
    seen: set[int] = set()
    first = [module for module, _ in expected()]
    for name in dict.fromkeys([*first, *public_modules()]):
        names = public_names(importlib.import_module(name))
        for each, value in names.items():
            if id(value) not in seen:
                seen.add(id(value))
                yield from examples_of(f"{name}.{each}", value, {"dhaga": dhaga, **names})


def expected() -> Iterator[tuple[str, str]]:
    for line in WITH_EXAMPLE.split("\n")[1:-1]:
        module, _, names = line.partition(": ")
        yield from ((module, name) for name in names.split())


@pytest.mark.parametrize("test", list(all_examples()), ids=lambda test: test.name)
def test_an_example_of_a_docstring_prints_what_it_shows(test: doctest.DocTest) -> None:
    if test.name.startswith("dhaga.simulation."):
        run_alone(test)
        return
    said: list[str] = []
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    failed, tried = runner.run(test, out=said.append)
    assert (failed, tried) == (0, len(test.examples)), "".join(said)


def run_alone(test: doctest.DocTest) -> None:
    """Run an example in a program of its own, for one that replaces all locks of its process."""
    code = f"""
        import doctest, dhaga, dhaga.simulation
        names = {{"dhaga": dhaga, **vars(dhaga.simulation)}}
        test = doctest.DocTestParser().get_doctest({test.docstring!r}, names, {test.name!r}, None, 0)
        failed, tried = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(test)
        print(failed, tried)
    """
    assert prints(code) == [f"0 {len(test.examples)}"]


@pytest.mark.parametrize(("module", "name"), list(expected()))
def test_a_name_that_is_used_every_day_has_an_example(module: str, name: str) -> None:
    value = getattr(importlib.import_module(module), name)
    assert examples_of(name, value, {})
