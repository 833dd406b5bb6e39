"""The links of a Markdown page, and the headings that they may name."""

from __future__ import annotations

import re
from pathlib import Path

FENCE = re.compile(r"^(```+).*?^\1$", re.MULTILINE | re.DOTALL)
TARGET = re.compile(r"""(?:src|href)=["']([^"']+)|\]\(([^)\s]+)""")


def prose(page: str) -> str:
    """Return a page without code blocks and inline code."""
    return re.sub(r"`[^`\n]*`", "", FENCE.sub("", page))


def link_targets(page: str) -> list[str]:
    """Return the targets of a page's links and pictures, in order."""
    return [path or address for path, address in TARGET.findall(prose(page))]


def anchors(page: str) -> set[str]:
    """Return the anchors of a page's headings, as GitHub and MyST make them."""
    headings = re.findall(r"^#+ (.+)$", FENCE.sub("", page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def dead_links(page: Path) -> list[str]:
    """Return the relative links of a page whose file, or heading in it, is missing."""
    missing = []
    for target in link_targets(page.read_text()):
        path, _, heading = target.partition("#")
        file = page.parent / path if path else page
        if "://" not in target and not (file.exists() and (not heading or heading in anchors(file.read_text()))):
            missing.append(target)
    return missing
