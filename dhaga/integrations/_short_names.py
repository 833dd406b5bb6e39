"""Adds short names for Dhaga's gunicorn worker and Celery pool in a patched program: ``-k dhaga`` and ``-P dhaga``.

Neither gunicorn nor Celery accepts names from other packages: gunicorn reads only the entry points of its own
distribution, and Celery's table leaves only the entry ``custom`` to other packages. So post-import hooks add the name
to both tables. The program must be patched before it imports gunicorn or Celery: ``python -m dhaga -m gunicorn``,
``python -m dhaga -m celery``.
"""

from __future__ import annotations

import sys

TABLES = {
    "celery.concurrency": ("ALIASES", "dhaga.integrations.celery:TaskPool"),
    "gunicorn.workers": ("SUPPORTED_WORKERS", "dhaga.integrations.gunicorn.Worker"),
}
"""For each module, the attribute that holds its table of names, and the class that is added to the table."""

NAME = "dhaga"


def install() -> None:
    """Add ``NAME`` to the table of each imported module."""
    for module, (table, ours) in TABLES.items():
        if module in sys.modules:
            vars(sys.modules[module])[table].setdefault(NAME, ours)


def uninstall() -> None:
    """Remove ``NAME`` from the tables."""
    for module, (table, ours) in TABLES.items():
        names = vars(sys.modules[module])[table] if module in sys.modules else {}
        if names.get(NAME) == ours:
            del names[NAME]
