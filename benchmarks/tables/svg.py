"""SVG pictures for a page with several of them: with unique ids, the page's fonts, a title and a description."""

import re
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

from benchmarks.tables.charts import COLOURS, SHADES

SVG = "http://www.w3.org/2000/svg"
XLINK = "http://www.w3.org/1999/xlink"
REFERENCES = ("href", f"{{{XLINK}}}href")
FONTS = "system-ui, -apple-system, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif"
NUMBERS = ("d", "x", "y", "x1", "x2", "y1", "y2", "width", "height", "transform", "points")
THEMED = {
    "#ffffff": "var(--chart, #ffffff)",
    "#000000": "currentColor",
    "black": "currentColor",
    "#b0b0b0": "var(--grid, #b0b0b0)",
    **{colour: f"var(--{rival}, {colour})" for rival, colour in COLOURS.items()},
    **{
        colour: f"var(--{rival}-{number}, {colour})"
        for rival, shades in SHADES.items()
        for number, colour in enumerate(shades, 1)
    },
}

ElementTree.register_namespace("", SVG)
ElementTree.register_namespace("xlink", XLINK)


def _rename(element: Element, prefix: str) -> None:
    """Put a prefix before the ids of an element, and before the ids that it refers to."""
    for name, value in element.attrib.items():
        if name == "id":
            element.set(name, prefix + value)
        elif name in REFERENCES and value.startswith("#"):
            element.set(name, f"#{prefix}{value[1:]}")
        else:
            element.set(name, value.replace("url(#", f"url(#{prefix}"))


def _set_fonts(element: Element) -> None:
    """Remove an element's fonts, so that the page's fonts apply, but keep the size."""
    if style := element.get("style"):
        element.set("style", re.sub(r"(font(?:-family)?:[^;']*?)'[^;]*", rf"\g<1>{FONTS}", style))


def _round(element: Element) -> None:
    """Round coordinates to hundredths of a point. This is invisible, and halves the number of bytes."""
    for name in NUMBERS:
        if text := element.get(name):
            element.set(name, re.sub(r"-?\d+\.\d{3,}", lambda found: f"{float(found[0]):.2f}", text).strip())


def _follow_theme(root: Element) -> None:
    """Use the page's colours for background, text and each rival. They differ between the light and the dark theme."""
    root.set("fill", "currentColor")  # for text, which is black by default
    for element in root.iter():
        if style := element.get("style"):
            for colour, themed in THEMED.items():
                style = style.replace(f": {colour}", f": {themed}")
            element.set("style", style)


def _insert(root: Element, name: str, text: str, **attributes: str) -> None:
    """Insert an element in front of all others."""
    found = Element(f"{{{SVG}}}{name}", attributes)
    found.text = text
    root.insert(0, found)


def _describe(root: Element, key: str, title: str, description: str) -> None:
    for name, text in (("desc", description), ("title", title)):
        _insert(root, name, text, id=f"{key}-{name}")
    root.set("role", "img")
    root.set("aria-labelledby", f"{key}-title {key}-desc")


def _parsed(svg: str) -> Element:
    """Parse a picture, without the drawing program's metadata and its style rule, which would affect the whole page."""
    root = ElementTree.fromstring(svg)
    for name in ("metadata", "defs"):
        for found in root.findall(f"{{{SVG}}}{name}"):
            if name == "metadata" or found.find(f"{{{SVG}}}style") is not None:
                root.remove(found)
    root.set("stroke-linejoin", "round")
    for element in root.iter():
        _set_fonts(element)
        _round(element)
    return root


def inline(svg: str, key: str, title: str, description: str) -> str:
    """Return the picture for a page: it is as wide as possible, and every id begins with the key."""
    root = _parsed(svg)
    _follow_theme(root)
    for element in root.iter():
        _rename(element, f"{key}-")
    for size in ("width", "height"):
        root.attrib.pop(size, None)
    _describe(root, key, title, description)
    return ElementTree.tostring(root, encoding="unicode")
