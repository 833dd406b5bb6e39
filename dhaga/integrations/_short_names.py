"""Short names of our worker and our pool in a patched program: ``gunicorn -k dhaga`` and ``celery -P dhaga``.

Neither gunicorn nor Celery accepts names from other packages (gunicorn reads only the entry points of its own
distribution, Celery's table has one slot, ``custom``). So the post-import hooks add ours to their tables. That needs a
program that is patched before it imports them: ``python -m dhaga -m gunicorn``, ``python -m dhaga -m celery``.
"""

from __future__ import annotations

import sys

TABLES = {
    "celery.concurrency": ("ALIASES", "dhaga.integrations.celery:TaskPool"),
    "gunicorn.workers": ("SUPPORTED_WORKERS", "dhaga.integrations.gunicorn.Worker"),
}
"""The table of names of each module, and our entry for it."""

NAME = "dhaga"


def install() -> None:
    """Add the name to the table of each imported module."""
    for module, (table, ours) in TABLES.items():
        if module in sys.modules:
            vars(sys.modules[module])[table].setdefault(NAME, ours)


def uninstall() -> None:
    """Remove the name."""
    for module, (table, ours) in TABLES.items():
        names = vars(sys.modules[module])[table] if module in sys.modules else {}
        if names.get(NAME) == ours:
            del names[NAME]
