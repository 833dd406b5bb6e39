"""A package that is not installed is named with the extra that brings it."""

from __future__ import annotations

import pytest

from dhaga._kernel.faces.extras import missing_extra
from tests.kit.scripts import prints

NEEDS = {
    "dhaga.http.wsgi": ("httptools", "serve"),
    "dhaga.integrations.celery": ("celery", "celery"),
    "dhaga.integrations.gunicorn": ("gunicorn", "gunicorn"),
    "dhaga.integrations.prometheus": ("prometheus_client", "prometheus"),
}

NAMES = {"dhaga.http.wsgi": "the server of dhaga.http.wsgi"}


def test_the_error_is_that_of_an_import_and_names_package_and_extra() -> None:
    error = missing_extra("dhaga.http.wsgi", "serve", ModuleNotFoundError(name="httptools"))
    assert type(error) is ModuleNotFoundError and error.name == "httptools"
    assert str(error) == "dhaga.http.wsgi needs httptools: pip install 'dhaga[serve]'"


@pytest.mark.parametrize("module", NEEDS)
def test_a_module_without_its_package_names_the_extra(module: str) -> None:
    package, extra = NEEDS[module]
    assert prints(f"""
        import sys
        sys.modules[{package!r}] = None  # as if it were not installed
        try:
            import {module}
        except ModuleNotFoundError as error:
            print(error.name.partition(".")[0], error)
    """) == [f"{package} {NAMES.get(module, module)} needs {package}: pip install 'dhaga[{extra}]'"]
