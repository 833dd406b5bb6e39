"""Scenarios: functions that take a user, from a module or a file, each with a weight."""

from __future__ import annotations

import inspect
import random
import sys
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
from pathlib import Path
from types import ModuleType
from typing import Any

from dhaga.monkey import patched_imports

from .users import User

Scenario = Callable[[User], object]

SHARED = ("examples", "requests", "urllib3", "hdrh")
"""Packages of which a scenario gets no copy of its own: it parks in them by what it is given."""


class BadScenario(ValueError):
    """A scenario that cannot be had."""


class Scenarios:
    """Functions, of which one is chosen for each run, as often as its weight is in all of theirs."""

    def __init__(self, functions: Sequence[Scenario], weights: Sequence[float] = (), seed: int = 1) -> None:
        self.functions = list(functions)
        self.sums = list(accumulate(weights or [1.0] * len(functions)))
        self.random = random.Random(seed)

    def choose(self) -> Scenario:
        """Return the scenario of the next run."""
        if len(self.functions) == 1:
            return self.functions[0]
        return self.random.choices(self.functions, cum_weights=self.sums)[0]

    @property
    def names(self) -> str:
        """Name them."""
        return ", ".join(function.__name__ for function in self.functions)


def get(user: User) -> None:
    """Fetch the URL: what is done without a scenario."""
    user.get()


def read(texts: Sequence[str]) -> Scenarios:
    """Parse texts PLACE:FUNCTION[=WEIGHT][,…], in which PLACE is a file or a module. Raises: BadScenario."""
    found = [pair for text in texts for pair in of(text)]
    if not found:
        return Scenarios([get])
    functions, weights = zip(*found, strict=True)
    return Scenarios(functions, weights)


def of(text: str) -> Iterator[tuple[Scenario, float]]:
    place, colon, names = text.rpartition(":")
    if not colon:
        place, names = text, ""
    module = import_from(place)
    if not names:
        known = ", ".join(name for name, each in vars(module).items() if is_scenario(each, module)) or "none is there"
        raise BadScenario(f"{text!r} names no function: write {text}:FUNCTION ({known})")
    for each in names.split(","):
        name, _, weight = each.partition("=")
        yield function(module, place, name.strip()), weight_of(each, weight)


def weight_of(text: str, weight: str) -> float:
    try:
        value = float(weight or 1)
    except ValueError:
        value = -1
    if not 0 < value < float("inf"):
        raise BadScenario(f"{text!r}: a weight is a number above 0, as in browse=9")
    return value


def function(module: ModuleType, place: str, name: str) -> Scenario:
    """Return a function that can be called with a user."""
    found = getattr(module, name, None)
    if found is None:
        known = ", ".join(key for key, each in vars(module).items() if is_scenario(each, module))
        raise BadScenario(f"there is no {name} in {place}" + (f", but {known}" if known else ""))
    if inspect.iscoroutinefunction(found):
        raise BadScenario(
            f"{name} in {place} is a coroutine function: write a plain one, whose calls park by themselves"
        )
    if not callable(found) or not takes_one(found):
        raise BadScenario(f"{name} in {place} is no scenario: it has to be a function that is called with a user")
    found.__name__ = getattr(found, "__name__", name)
    scenario: Scenario = found
    return scenario


def takes_one(found: Any) -> bool:
    try:
        inspect.signature(found).bind(object())
    except (TypeError, ValueError):
        return False
    return True


def is_scenario(found: object, module: ModuleType) -> bool:
    mine = inspect.isfunction(found) and found.__module__ == module.__name__
    return mine and takes_one(found) and not inspect.iscoroutinefunction(found)


def import_from(place: str) -> ModuleType:
    """Import a module, or a file, as a copy whose `time.sleep`, sockets and locks park. Raises: BadScenario."""
    name = place
    if place.endswith(".py"):
        path = Path(place).resolve()
        if not path.is_file():
            raise BadScenario(f"there is no file {place}")
        name = path.stem
        sys.path.insert(0, str(path.parent))
    elif "" not in sys.path:
        sys.path.insert(0, "")
    try:
        return patched_imports(name, shared=SHARED).import_module(name)
    except ModuleNotFoundError as error:
        if not error.name or not f"{name}.".startswith(f"{error.name}."):
            raise BadScenario(f"{place} cannot be imported: {error}") from error
        raise BadScenario(f"there is no module {place}; a file ends in .py") from error
    except Exception as error:
        raise BadScenario(f"{place} cannot be imported: {type(error).__name__}: {error}") from error
