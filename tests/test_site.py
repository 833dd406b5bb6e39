"""The built site in a browser, at the widths of a phone and of a desk: `make test-site` builds it and runs these."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.kit.browser import browsing

SITE = os.environ.get("DHAGA_SITE", "")
pytestmark = [
    pytest.mark.once,
    pytest.mark.skipif(not SITE, reason="no DHAGA_SITE, a folder with the built pages: make test-site"),
]
LEFT_OUT = ("404.html", "genindex.html", "py-modindex.html")
"""Links of 404.html begin at the root, for a server; the theme makes the others, of names alone."""

WIDER = """
const wide = [];
for (const each of document.querySelectorAll("body *")) {
  const place = each.getBoundingClientRect();
  if (place.width < 2 || place.right <= innerWidth + 1 || place.left >= innerWidth) continue;
  let box = each.parentElement;
  while (box && getComputedStyle(box).overflowX === "visible") box = box.parentElement;
  if ((!box || box === document.body) && each.checkVisibility())
    wide.push(`${each.tagName}.${each.className} ends at ${Math.round(place.right)}`);
}
return wide;
"""
"""Elements that begin on the screen and end beyond it, in no box that scrolls."""

OVERLAPPING = """
const places = [...document.querySelectorAll(arguments[0])].filter((each) => each.checkVisibility())
  .map((each) => each.getBoundingClientRect()).filter((each) => each.width && each.height)
  .sort((a, b) => a.top - b.top);
let found = 0;
places.forEach((one, at) => {
  for (let next = at + 1; next < places.length && places[next].top < one.bottom - 0.5; next++)
    found += one.left < places[next].right - 0.5 && places[next].left < one.right - 0.5;
});
return found;
"""
"""How many pairs of these elements overlap."""

HINTED = """
const cut = [...document.querySelectorAll(".table-wrapper")].filter((each) => each.scrollWidth > each.clientWidth + 1);
return [cut.length, cut.filter((each) => each.previousElementSibling.matches("p.sideways:not([hidden])")).length];
"""


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with browsing(tmp_path_factory.mktemp("profile")) as found:
        yield found


def resize(browser: Any, width: int) -> None:
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)


def open_page(browser: Any, page: str) -> None:
    browser.get(Path(SITE, page).absolute().as_uri())


def faults(browser: Any) -> list[str]:
    """Return what is wrong with the open page at its width."""
    found: list[str] = browser.execute_script(WIDER)
    if browser.execute_script("return document.documentElement.scrollWidth > innerWidth"):
        found.append("scrolls sideways")
    for controls in (".mobile-header svg, .mobile-header .brand", "pre, button.copy"):
        if pairs := browser.execute_script(OVERLAPPING, controls):
            found.append(f"overlaps of {controls}: {pairs}")
    return found


def test_no_page_is_wider_than_its_screen_and_no_button_lies_over_code(browser: Any) -> None:
    pages = sorted(str(path.relative_to(SITE)) for path in Path(SITE).rglob("*.html"))
    assert len(pages) > 50
    wrong = []
    for page in pages:
        if page in LEFT_OUT:
            continue
        open_page(browser, page)
        for width in (1280, 400):
            resize(browser, width)
            wrong += [f"{page} at {width} px: {each}" for each in faults(browser)]
    assert wrong == []


def test_a_table_that_is_cut_says_so(browser: Any) -> None:
    resize(browser, 400)
    open_page(browser, "howto/deploy.html")
    cut, hinted = browser.execute_script(HINTED)
    assert cut == hinted > 0


def test_the_report_leads_back_to_the_pages_of_this_site(browser: Any) -> None:
    open_page(browser, "report.html")
    links = browser.execute_script("return [...document.querySelectorAll('nav.site a')].map((each) => each.href)")
    assert links and all(Path(link.removeprefix("file://")).is_file() for link in links)
