"""Anchors for the errors index: each message on the page gets one, and a link to it.

An anchor is made of the exception and the first words of the message: other messages come and go without a change.
"""

import re
from typing import Any

from dhaga._cli import errors_index

PAGE = "reference/errors"


def anchored(page: str) -> str:
    """Return the page with the messages of an entry in one line, as Markdown wants a term, and an anchor for each."""
    heading = ""
    used: dict[str, int] = {}

    def head_of(found: re.Match[str]) -> str:
        nonlocal heading
        if found["heading"]:
            heading = found["heading"]
            return found[0]
        texts = errors_index.texts_of(found["texts"])
        return "<br>".join(linked(text, anchor(heading, text, used)) for text in texts) + "\n:"

    return re.sub(r"^## (?P<heading>.+)$|^(?P<texts>(?:`.+`\n)+):", head_of, page, flags=re.MULTILINE)


def anchor(heading: str, text: str, used: dict[str, int]) -> str:
    """Return an anchor for a message; a number tells those apart that begin alike."""
    words = re.findall(r"[a-z0-9]+", text.lower())[:6]
    made = "-".join([heading.lower().replace(" ", "-"), *words])
    used[made] = times = used.get(made, 0) + 1
    return made if times == 1 else f"{made}--{times}"


def linked(text: str, anchor: str) -> str:
    """Return a text as code with an anchor, and a link to it."""
    code = f"`` {text} ``" if "`" in text else f"`{text}`"
    return f"{code}{{#{anchor}}}[¶](#{anchor}){{.message-link}}"


def fill(app: Any, docname: str, source: list[str]) -> None:
    if docname == PAGE:
        source[0] = anchored(source[0])


def setup(app: Any) -> dict[str, Any]:
    app.connect("source-read", fill)
    return {"parallel_read_safe": True}
