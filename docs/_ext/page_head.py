"""Fills in the head of each page: its description, and the card that a link to it shows in a chat or a feed.

A description is the page's first paragraph. On 404.html, which a server sends for any address, links start at the root.
"""

from html import escape
from typing import Any

from docutils import nodes
from markupsafe import Markup
from sphinx.application import Sphinx

LONGEST = 200
"""Characters of a description; search engines cut it at about 160."""


def description(document: nodes.document) -> str:
    """Return the beginning of the first paragraph of text."""
    for paragraph in document.findall(nodes.paragraph):
        if isinstance(paragraph.parent, nodes.section) and (text := " ".join(paragraph.astext().split())):
            return text if len(text) <= LONGEST else text[:LONGEST].rpartition(" ")[0] + " …"
    return ""


def tags(page: str, title: str, words: str, base: str) -> str:
    """Return the elements of the head."""
    card = {
        "og:type": "website",
        "og:site_name": "Dhaga",
        "og:title": title,
        "og:description": words,
        "og:url": f"{base}{page}.html",
        "og:image": f"{base}_static/card.png",
        "og:image:alt": "Dhaga: Python threads that cost as little as objects",
    }
    lines = [f'<meta name="description" content="{escape(words)}">']
    lines += ['<meta name="twitter:card" content="summary_large_image">']
    lines += [f'<meta property="{key}" content="{escape(value)}">' for key, value in card.items() if value]
    return "\n".join(lines)


def fill(app: Sphinx, page: str, template: str, context: dict[str, Any], document: nodes.document | None) -> None:
    """Add them to what the theme puts into the head."""
    words = description(document) if document is not None else ""
    title = Markup(context.get("title", "")).striptags()
    if page == "404":
        context["metatags"] = '<base href="/">' + context.get("metatags", "")
    elif words:
        context["metatags"] = context.get("metatags", "") + tags(page, title, words, app.config.html_baseurl)


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("html-page-context", fill)
    return {"parallel_read_safe": True}
