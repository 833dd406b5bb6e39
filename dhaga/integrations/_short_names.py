"""Our worker's and our pool's short names, ``gunicorn -k dhaga`` and ``celery -P dhaga``, in a patched program.

Neither engine takes names of workers from other packages (gunicorn asks for entry points of its own distribution alone,
Celery's table has one slot, ``custom``). So the post-import hooks put ours into their tables, which they can do in
a program that is patched before it imports them: ``python -m dhaga -m gunicorn``, ``python -m dhaga -m celery``.
"""

from __future__ import annotations

import sys

TABLES = {
    "celery.concurrency": ("ALIASES", "dhaga.integrations.celery:TaskPool"),
    "gunicorn.workers": ("SUPPORTED_WORKERS", "dhaga.integrations.gunicorn.Worker"),
}
"""The module of each engine, its table of names, and ours in the form that the engine takes."""

NAME = "dhaga"


def install() -> None:
    """Add the name to each table that was imported."""
    for module, (table, ours) in TABLES.items():
        if module in sys.modules:
            vars(sys.modules[module])[table].setdefault(NAME, ours)


def uninstall() -> None:
    """Remove it."""
    for module, (table, ours) in TABLES.items():
        names = vars(sys.modules[module])[table] if module in sys.modules else {}
        if names.get(NAME) == ours:
            del names[NAME]
