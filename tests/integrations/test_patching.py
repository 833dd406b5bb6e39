"""Which processes are Celery's workers with our pool, and so patched as the pool is imported."""

from __future__ import annotations

import pytest

pytest.importorskip("celery")

from dhaga.integrations.celery._patching import is_worker_command, pool_of, unpatched_line


@pytest.mark.parametrize(
    ("words", "pool"),
    [
        ("celery worker", None),
        ("celery worker -P custom", "custom"),
        ("celery worker -Pcustom", "custom"),
        ("celery worker --pool custom", "custom"),
        ("celery worker --pool=prefork -c 3", "prefork"),
        ("celery worker -P", ""),
    ],
)
def test_the_pool_that_a_command_line_names(words: str, pool: str | None) -> None:
    assert pool_of(words.split()) == pool


@pytest.mark.parametrize(
    "words",
    [
        "/usr/bin/celery -A shop worker --concurrency 1000",
        "/lib/celery/__main__.py -A shop worker -P custom",
        "celery.exe -A shop worker -P dhaga",
        "celery worker --pool=dhaga.integrations.celery:TaskPool",
    ],
)
def test_celerys_worker_is_patched(words: str) -> None:
    assert is_worker_command(words.split())


@pytest.mark.parametrize(
    "words",
    ["", "celery -A shop beat", "celery -A shop worker -P prefork", "pytest worker", "/lib/shop/__main__.py worker"],
)
def test_other_programs_are_not(words: str) -> None:
    assert not is_worker_command(words.split())


def test_a_program_that_starts_a_worker_itself_is_told_nothing() -> None:
    assert unpatched_line() is None
