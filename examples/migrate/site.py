"""What the three forms share: a site of pages that link to each other, and how the report reads. Nothing waits here."""

from __future__ import annotations

from collections.abc import Mapping

PAGES = {
    "/": ("/news", "/people", "/old"),
    "/news": ("/", "/news/1", "/news/2"),
    "/news/1": ("/people/ada", "/slow"),
    "/news/2": ("/gone", "/people"),
    "/people": ("/people/ada", "/people/kurt"),
    "/people/ada": ("/",),
    "/people/kurt": ("/slow",),
    "/slow": ("/",),
}
"""The links of each page. What is linked to and has no page is missing."""

SLOW = "/slow"
"""The page that takes longer than the timeout."""

WORKERS = 3
PATIENCE = 1.0
"""Seconds that a page may take."""


def answer(path: str) -> str:
    """Return what the server says to a path: its links, or that it is missing."""
    return " ".join(("200", *PAGES[path])) if path in PAGES else "404"


def links_of(line: str) -> tuple[str, ...] | None:
    """Return the links in an answer; None if the page is missing."""
    status, *links = line.split()
    return tuple(links) if status == "200" else None


def show(findings: Mapping[str, str], peak: int) -> None:
    """Print the report."""
    for path in sorted(findings):
        print(f"{path:14} {findings[path]}")
    print(f"{len(findings)} pages, {peak} at once")
