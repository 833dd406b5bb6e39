"""The table of packages, and the page that is written from it."""

from __future__ import annotations

import re
from datetime import date

import pytest

from tests.kit.scripts import ROOT
from tests.packages.table import KINDS, PAGE, VERDICTS, Newcomer, Package, newcomers, packages, page
from tests.packages.test_packages import PROGRAMS_RUN

RUN = {program.words for program in PROGRAMS_RUN}


def exists(test: str) -> bool:
    """Return whether there is a test: a program that is run, or FILE::FUNCTION below tests/."""
    file, _, function = test.partition("::")
    return test in RUN if not function else f"def {function}(" in (ROOT / "tests" / file).read_text()


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text() == page(), "python -m tests.packages.table"


def test_a_package_is_listed_once() -> None:
    names = [name for package in packages() for name in package.names()]
    assert len(names) == len(set(names)) >= 100


@pytest.mark.parametrize("package", packages(), ids=lambda package: package.name)
def test_a_verdict_is_known_from_a_test_or_says_what_was_read(package: Package) -> None:
    assert package.kind in KINDS and package.verdict in VERDICTS
    assert bool(package.test) != bool(package.read)
    if package.verdict in ("works", "works by"):
        assert package.test
    if package.verdict in ("works by", "blocks", "refused"):
        assert package.by
    assert not package.test or exists(package.test), package.test


@pytest.mark.parametrize("package", packages(), ids=lambda package: package.name)
def test_a_row_says_which_versions_were_looked_at_and_when(package: Package) -> None:
    versions, _, day = package.looked.partition(", ")
    assert len(versions.split(" / ")) == len(package.names())
    assert all(re.fullmatch(r"\d[\w.]*", version) for version in versions.split(" / "))
    assert date(2026, 1, 1) <= date.fromisoformat(day)


@pytest.mark.parametrize("package", packages(), ids=lambda package: package.name)
def test_what_waits_in_c_has_been_searched_for_hooks(package: Package) -> None:
    assert package.waits_in_c() == (package.probed is not None)
    for reason in (package.probed or {}).values():
        assert reason


@pytest.mark.parametrize("newcomer", newcomers(), ids=lambda newcomer: newcomer.program)
def test_a_program_of_a_newcomer_has_a_test(newcomer: Newcomer) -> None:
    assert exists(newcomer.test), newcomer.test


def test_every_program_with_a_package_is_in_the_table() -> None:
    # Drivers of one program count once.
    listed = {package.test.split()[0] for package in packages() if package.test in RUN}
    assert {program.words.split()[0] for program in PROGRAMS_RUN if program.packages} <= listed
