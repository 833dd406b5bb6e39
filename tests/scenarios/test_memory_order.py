"""The hand-shakes of the C code hold in every order of their steps that C11 allows, also on processors weaker than x86.

Every atomic operation in C is a step of a hand-shake, or is listed with the reason why no hand-shake rests on it. Each
order stronger than relaxed, each fence, and each lock taken only for the order is needed, or is listed as surplus.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from tests.kit.atomic_steps import (
    ATOMIC,
    EXCUSED,
    MEANINGS,
    PACKAGE,
    SITES,
    Site,
    Steps,
    functions_of,
    meaning_of,
    text_of,
)
from tests.kit.handshakes import HANDSHAKES, Handshake
from tests.kit.memory_model import Found

pytestmark = pytest.mark.once

Make = Callable[[Steps], Handshake]

C_FILES = sorted(
    str(path.relative_to(PACKAGE)) for ending in ("c", "h") for path in (PACKAGE / "_kernel/fast").rglob(f"*.{ending}")
)
ORDERED = [
    name
    for name, step in MEANINGS.items()
    if step.order != "relaxed" or step.kind == "fence all" or SITES[name].text.startswith("fence(")
]
SURPLUS = {
    **dict.fromkeys(
        ("fence of wake", "fence of join", "fence of end", "fence of get", "fence of read"),
        "both sides take CPython's lock of the same list, deque or dictionary, which orders their looks",
    ),
    **dict.fromkeys(("asleep seen", "done seen", "watched seen"), "a flag: nothing is read through it"),
    "step back": "the fence of all threads orders the steps before it; a sandbox may forbid that fence",
}


@cache
def explored(handshake: Make) -> tuple[set[str], Found, bool]:
    """Return the names of a hand-shake's steps, the model's findings, and whether the hand-shake holds."""
    steps = Steps()
    found, holds = handshake(steps).explore()
    return steps.used, found, holds


@pytest.mark.parametrize("handshake", HANDSHAKES)
def test_a_handshake_holds_in_every_order(handshake: Make) -> None:
    _, found, holds = explored(handshake)
    assert holds, found
    assert len(found.results) >= 1 and found.states >= 30


@pytest.mark.parametrize("name", ORDERED)
def test_each_order_is_needed_or_listed_as_surplus(name: str) -> None:
    using = [each for each in HANDSHAKES if name in explored(each)[0]]
    assert using
    needed = any(not each(Steps(name)).explore()[1] for each in using)
    assert needed is (name not in SURPLUS)


def test_every_step_is_made_by_a_handshake() -> None:
    assert set().union(*(explored(each)[0] for each in HANDSHAKES)) == set(SITES)


@pytest.mark.parametrize("name", SITES)
def test_each_step_names_one_place_of_the_source(name: str) -> None:
    site = SITES[name]
    assert functions_of(site.file)[site.function].count(site.text) == 1


@pytest.mark.parametrize("file", C_FILES)
def test_each_atomic_operation_in_c_is_a_step_or_listed(file: str) -> None:
    short = Path(file).name
    for function, text in functions_of(file).items():
        for site in SITES.values():
            if (site.file, site.function) == (file, function):
                text = text.replace(site.text, "")
        unknown = {f"{short} {each}" for each in ATOMIC.findall(text.partition("{")[2])} - set(EXCUSED)
        assert not unknown or f"{short} {function}" in EXCUSED, f"{function}: {unknown}"


def test_what_is_outside_of_functions_defines_the_operations() -> None:
    for file in C_FILES:
        text = re.sub(r"/\*.*?\*/", "", text_of(file), flags=re.DOTALL)
        for function in functions_of(file).values():
            text = text.replace(function, "")
        rest = re.sub(r"#define (\\\n|.)*", "", text)
        assert not ATOMIC.findall(rest), file


def test_what_is_listed_is_there() -> None:
    assert set(SURPLUS) <= set(ORDERED)
    bodies = {
        f"{Path(file).name} {function}": text for file in C_FILES for function, text in functions_of(file).items()
    }
    operations = {f"{key.split()[0]} {each}" for key, text in bodies.items() for each in ATOMIC.findall(text)}
    for key in EXCUSED:
        assert key in operations or ATOMIC.search(bodies[key]) or "_Py_Is" in bodies[key], key


@pytest.mark.parametrize(
    ("name", "strong", "weak"),
    [
        ("busy down", "STORE_RELEASE", "STORE"),
        ("idle", "LOAD_ACQUIRE", "LOAD"),
        ("is of this epoch", "LOAD_ACQUIRE", "LOAD"),
        ("room taken", "ACQ_REL", "RELAXED"),
        ("fence of chunk", "order_release", "order_relaxed"),
    ],
)
def test_a_weaker_order_in_the_source_is_one_in_the_model(name: str, strong: str, weak: str) -> None:
    site: Site = SITES[name]
    assert strong in site.text
    weaker = meaning_of(site._replace(text=site.text.replace(strong, weak)))
    assert weaker == MEANINGS[name]._replace(order="relaxed") != MEANINGS[name]
