"""Renders the form of Dhaga's docstrings: what follows `Parks:`, `From:`, `Returns:` and their like becomes a field.

Docstrings of the standard library, which faces re-export, are left out.
"""

import re
from typing import Any

from sphinx.application import Sphinx

KEYS = ("Parks", "From", "Returns", "Raises", "Source")
KEY = re.compile(rf"(?:^|(?<=[.:;)`] ))({'|'.join(KEYS)}): ")


def process_docstring(app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Rewrite the lines of one docstring in place."""
    if not is_ours(what, obj):
        lines[:] = ["As in the standard library.", ""]
        return
    shown = blocks(lines)[:1] if what == "module" else blocks(lines)  # the rest of a module's is for its readers
    lines[:] = [line for block in shown for line in [*rewritten(block), ""]]


def is_ours(what: str, obj: Any) -> bool:
    if what == "module":
        return True
    module = getattr(obj, "__module__", None) or getattr(getattr(obj, "fget", None), "__module__", None)
    return module is None or str(module).startswith("dhaga")


def blocks(lines: list[str]) -> list[list[str]]:
    """Split a docstring at its empty lines."""
    found: list[list[str]] = [[]]
    for line in lines:
        if line.strip():
            found[-1].append(line)
        elif found[-1]:
            found.append([])
    return [block for block in found if block]


def rewritten(block: list[str]) -> list[str]:
    """Return a paragraph with its keys as a field list; any other block as it is."""
    if block[0].lstrip().startswith((">>>", "- ", "* ")) or block[0].startswith(" "):
        return block
    text = " ".join(line.strip() for line in block)
    before, *rest = KEY.split(text)
    if not rest:
        return block
    fields = [f":{key}: {value.strip()}" for key, value in zip(rest[::2], rest[1::2], strict=True)]
    return [*([before.strip(), ""] if before.strip() else []), *fields]


def skip_member(app: Sphinx, what: str, name: str, obj: Any, skip: bool, options: Any) -> bool | None:
    """Leave out ``Dhaga.run``, which greenlet calls, and no user."""
    return True if name == "run" and str(getattr(obj, "__module__", "")).startswith("dhaga._kernel") else None


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("autodoc-process-docstring", process_docstring)
    app.connect("autodoc-skip-member", skip_member)
    return {"parallel_read_safe": True}
