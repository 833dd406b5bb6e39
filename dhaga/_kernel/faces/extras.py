"""The error for a package that is not installed, because ``pip install dhaga`` brings greenlet and Tornado only."""

from __future__ import annotations


def missing_extra(needed_by: str, extra: str, error: ImportError) -> ModuleNotFoundError:
    """Return an error to raise in place of a package's ImportError. It names the extra that installs the package."""
    package = str(error.name).partition(".")[0]
    return ModuleNotFoundError(f"{needed_by} needs {package}: pip install 'dhaga[{extra}]'", name=error.name)
