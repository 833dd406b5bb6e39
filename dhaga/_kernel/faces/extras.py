"""The error for a missing optional package. ``pip install dhaga`` installs only greenlet and Tornado with Dhaga."""

from __future__ import annotations


def missing_extra(needed_by: str, extra: str, error: ImportError) -> ModuleNotFoundError:
    """Return an error to raise instead of a package's ImportError. The error names the extra that installs the
    package.
    """
    package = str(error.name).partition(".")[0]
    return ModuleNotFoundError(f"{needed_by} needs {package}: pip install 'dhaga[{extra}]'", name=error.name)
