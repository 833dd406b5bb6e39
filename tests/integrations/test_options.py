"""Settings of the pool: those that make no sense are refused, those of other pools named."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("celery")

from celery import Celery
from celery.exceptions import (
    ImproperlyConfigured,
)
from celery.utils import threads as celery_threads

from dhaga.integrations.celery import TaskPool
from tests.kit.celery_world import Said, World


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"worker_dhaga_threads": 0}, "worker_dhaga_threads is a number of OS threads, 1 or more, not 0"),
        ({"worker_dhaga_threads": "two"}, "not 'two'"),
        ({"worker_dhaga_threads": 3}, "only 2 tasks may run at once"),
        ({"worker_dhaga_watch": -1}, "worker_dhaga_watch is a number of seconds"),
        ({"worker_dhaga_blocking_results": "yes"}, "worker_dhaga_blocking_results is True or False"),
        ({"worker_dhaga_thread": 2}, "there is no setting worker_dhaga_thread; the pool of dhagas has"),
    ],
)
def test_a_setting_that_makes_no_sense_is_refused(settings: Any, words: str) -> None:
    with pytest.raises(ImproperlyConfigured, match=words):
        TaskPool(2, app=World(**settings).app)


def test_settings_may_have_the_namespace_of_the_app() -> None:
    app = Celery("world", broker="memory://", set_as_current=False)
    app.config_from_object({"CELERY_WORKER_DHAGA_THREADS": 2, "CELERY_TIMEZONE": "UTC"}, namespace="CELERY")
    assert TaskPool(2, app=app).settings.threads == 2


def test_locals_by_os_thread_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(celery_threads, "USE_FAST_LOCALS", "1")
    with pytest.raises(ImproperlyConfigured, match="USE_FAST_LOCALS keeps current_task per OS thread"):
        TaskPool(2)


@pytest.mark.logs
def test_options_of_other_pools_are_named(said: Said) -> None:
    pool = TaskPool(2, maxtasksperchild=5, max_memory_per_child=9, sched_strategy="fair", forking_enable=False)
    pool.start()
    pool.stop()
    for words in ("worker_max_tasks_per_child", "worker_max_memory_per_child", "-O fair", "worker_pool_start_method"):
        assert words in said.text()
