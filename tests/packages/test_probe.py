"""The search for wait hooks: it finds those that are known, and nothing new in packages that wait in C."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, distribution

import pytest

from tests.packages.probe import COMPILED, KINDS, files_of, gives_lock_up, kinds_of, probe, report
from tests.packages.table import Package, packages

KNOWN = {
    "curl_cffi": {"microthreads", "multi"},
    "mariadb": {"descriptor", "halves"},
    "mysqlclient": {"descriptor", "halves"},
    "psycopg2-binary": {"callback", "descriptor", "halves", "microthreads"},
    "pymssql": {"callback", "descriptor", "halves"},
    "python-ldap": {"descriptor", "halves"},
    "snowflake-connector-python": {"coroutines"},
}
"""Packages whose hooks are used by ``dhaga.integrations``."""

IN_C = [package for package in packages() if package.probed is not None]


def skip_without(name: str) -> None:
    try:
        distribution(name)
    except PackageNotFoundError:
        pytest.skip(f"needs {name}")


@pytest.mark.parametrize("name", KNOWN)
def test_the_hooks_that_are_used_are_found(name: str) -> None:
    skip_without(name)
    assert kinds_of(name) >= KNOWN[name]


@pytest.mark.parametrize("package", IN_C, ids=lambda package: package.name)
def test_each_kind_found_in_a_package_that_waits_in_c_has_its_reason(package: Package) -> None:
    skip_without(package.name)
    assert package.probed is not None
    assert kinds_of(package.name) == set(package.probed), report(package.name)


def test_reasons_are_given_for_known_kinds() -> None:
    assert {kind for package in IN_C for kind in package.probed or {}} <= set(KINDS)


def test_a_finding_names_the_file_and_the_report_each_finding() -> None:
    skip_without("pymssql")
    callback = next(finding for finding in probe("pymssql") if finding.name == "set_wait_callback")
    assert callback.kind == "callback"
    assert callback.file.startswith("pymssql/") and callback.file.endswith(COMPILED)
    assert callback.file in report("pymssql")


def test_only_an_extension_gives_the_lock_up() -> None:
    assert gives_lock_up("greenlet") is False
    skip_without("pymssql")
    assert gives_lock_up("pymssql")


def test_files_of_a_package_are_its_code() -> None:
    assert {path.suffix for path, _ in files_of(distribution("greenlet"))} == {".py", ".so"}
