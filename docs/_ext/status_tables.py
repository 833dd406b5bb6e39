"""Marks the cells of tables with tests, so that the style sheet can lay rows out as cards, and colour the statuses.

Such a table has a column `test`; the words of its column `status` (works, blocks, …) become badges.
"""

import re
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx

TEST, STATUS = "test", "status"


def mark(app: Sphinx, document: nodes.document) -> None:
    """Add classes to such tables and their cells."""
    for table in document.findall(nodes.table):
        heads = [entry.astext() for head in table.findall(nodes.thead) for entry in head.findall(nodes.entry)]
        if TEST not in heads:
            continue
        table["classes"].append("statuses")
        for row in (row for body in table.findall(nodes.tbody) for row in body.findall(nodes.row)):
            for head, entry in zip(heads, row.findall(nodes.entry), strict=True):
                entry["classes"].append(f"in-{slug(head)}")
                text = entry.astext()
                if head == STATUS and text:
                    entry[:] = [nodes.paragraph("", "", nodes.inline("", text, classes=["badge", f"is-{slug(text)}"]))]


def slug(text: str) -> str:
    return re.sub(r"\W+", "-", text.lower()).strip("-")


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("doctree-read", mark)
    return {"parallel_read_safe": True}
