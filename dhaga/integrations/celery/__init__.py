"""A Celery pool that runs tasks in dhagas. The setting is ``worker_pool = "dhaga.integrations.celery:TaskPool"``."""

from __future__ import annotations

from ._patching import patch_worker

patch_worker()  # before the next import, which imports most of Celery

from ._task_pool import TaskPool  # noqa: E402

__all__ = ["TaskPool"]

TaskPool.__module__ = __name__  # Celery's ``inspect stats`` then shows the name that users configure
