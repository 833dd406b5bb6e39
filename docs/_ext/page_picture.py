"""Draws docs/_static/page.webp and page-dark.webp: the page of `debug.serve()` in a browser.

Run it after a change to the page: `python docs/_ext/page_picture.py`. It needs Chromium, its driver and Selenium, as
the tests of the page do; no build runs it. The page is the real one; its answers are those below.
"""

import json
import math
import os
import tempfile
from base64 import b64decode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from selenium.webdriver import Chrome, ChromeOptions
from selenium.webdriver.chrome.service import Service

ROOT = Path(__file__).parent.parent.parent
PAGE = ROOT / "dhaga/debug/_remote/web_page.html"
PICTURES = {"light": ROOT / "docs/_static/page.webp", "dark": ROOT / "docs/_static/page-dark.webp"}
WIDTH, SCALE, QUALITY = 940, 1.3, 45
"""CSS pixels, device pixels of each, and percent: a picture has at most 60 KB."""

REPORT = "/srv/shop/report.py:41 in total"
Event = dict[str, Any]


# ---- a shop: orders that wait for one lock, and a report that computes


def row(ident: int, name: str, reason: str | None, seconds: float | None, **more: Any) -> dict[str, Any]:
    common = {"kind": "dhaga", "scheduler": "MainThread", "held": 0.0, "share": 0.0, "waits_on": None, "held_by": []}
    state = "WAITING" if reason else "RUNNABLE"
    return {"ident": ident, "name": name, "state": state, "reason": reason, "seconds": seconds, **common, **more}


def group(count: int, name: str, reason: str, seconds: float, waits_on: str, *holders: str) -> dict[str, Any]:
    more: dict[str, Any] = {"key": name, "count": count, "open": False, "waits_on": waits_on, "held_by": holders}
    return row(0, name, reason, seconds, **{"kind": "group", **more})


def table() -> dict[str, Any]:
    lock = "<Lock held by POST /orders/44, 3 parked>"
    rows = [
        row(1, "GET /report", None, None, held=0.85, share=0.83),
        group(3, "POST /orders/…", "lock.acquire", 0.148, lock, "POST /orders/44"),
        row(5, "POST /orders/44", "sleep", 0.031),
        group(3, "mailer-…", "queue.get", 12.4, "<Queue empty, 3 parked>"),
        row(9, "GET /events", "read fd 9", 312.0),
        row(10, "nightly", "sleep", 2460.0),
    ]
    return {
        "pid": 4711,
        "headline": "10 dhagas and main code: 10 waiting, 1 runnable",
        "total": 11,
        "matching": 11,
        "hidden": 0,
        "measured": True,
        "states": {"WAITING": 10, "RUNNABLE": 1},
        "reasons": [["lock.acquire", 3], ["queue.get", 3], ["sleep", 3], ["read fd 9", 1]],
        "cycles": [],
        "cycle_idents": [],
        "blocks": [],
        "rows": [*rows, row(0, "main code", "sleep", 2460.0, kind="main code")],
    }


def history() -> dict[str, Any]:
    """Return five quiet minutes, and the report in the sixth; at its end the table is as above."""
    samples = []
    for second in range(360):
        wave, busy = math.sin(second / 9) + math.sin(second / 3.7), second > 300
        runnable = 1 if second == 359 else max(0, round(1 + wave + 2 * busy))
        preempted = 62 + 12 * wave if busy else 0
        samples.append([1e9 + second, runnable, 11 - runnable, 0.004 + 0.013 * busy, preempted])
    return {"interval": 1.0, "samples": samples, "preempted": [[REPORT, 3711]]}


TRACKS = {name: number for number, name in enumerate(("GET /report", *(f"POST /orders/{n}" for n in range(41, 45))), 1)}


class Trace:
    """One second. Each order holds the lock for 50 ms and hands it on; the report computes, and is preempted."""

    def event(self, kind: str, track: str, at: float, /, **more: Any) -> Event:
        return {"ph": kind, "pid": 4711, "tid": TRACKS[track], "ts": at * 1000, **more}

    def slice(self, track: str, name: str, begin: float, end: float, /, **more: Any) -> Event:
        return self.event("X", track, begin, name=name, dur=(min(end, 1000) - begin) * 1000, **more)

    def events(self) -> Iterator[Event]:
        """Yield events; times are in ms."""
        for name, number in TRACKS.items():
            yield self.event("M", name, 0, name="thread_name", args={"name": name, "ident": number})
        for turn in range(20):
            yield from self.turn(turn, 50.0 * turn)

    def turn(self, number: int, begin: float) -> Iterator[Event]:
        """Yield the events of 50 ms: four turns of GET /report, and the POST that holds the lock meanwhile."""
        holder, following = (f"POST /orders/{41 + each % 4}" for each in (number, number + 1))
        yield self.slice(holder, "sleep", begin, begin + 46)
        yield self.slice(holder, "running", begin + 46, begin + 49)
        yield self.slice(holder, "lock.acquire", begin + 49, begin + 200)
        if begin < 150:
            yield self.slice(f"POST /orders/{41 + (number + 1) % 4}", "lock.acquire", 0, begin + 50)
        yield self.event("s", holder, begin + 48, name="wake", cat="wake", id=number)
        yield self.event("f", following, begin + 50, name="wake", cat="wake", id=number, bp="e")
        for part in range(4):
            at = begin + 11.5 * part
            yield self.slice("GET /report", "running", at, at + 10, args={"preempted_at": REPORT})


def answers() -> dict[str, Any]:
    trace = {"seconds": 1.0, "traceEvents": list(Trace().events())}
    return {"table": table(), "history": history(), "trace": trace}


# ---- the picture

STUB = """
const answers = %s;
window.fetch = async (path) => new Response(JSON.stringify(answers[path.split("?")[0].split("/").at(-1)]));
"""
READY = "return past.length > 0 && Number(canvas.dataset.slices) > 0 && rows.children.length > 0"
POINT = """
seconds.value = "1";
point(2);
slice.textContent = boxes.find(each => each.text.includes("preempted")).text;
"""


def page(folder: Path) -> str:
    """Write the page with its answers; return its address."""
    script = STUB % json.dumps(answers()).replace("</", "<\\/")
    path = folder / "page.html"
    path.write_text(PAGE.read_text().replace("<script", f"<script>{script}</script>\n<script", 1))
    return f"{path.as_uri()}?token=x"


def browser(profile: Path) -> Chrome:
    options = ChromeOptions()
    options.binary_location = os.environ.get("DHAGA_CHROMIUM", "/usr/bin/chromium")
    for option in ("headless", "no-sandbox", "disable-gpu", "disable-dev-shm-usage", f"user-data-dir={profile}"):
        options.add_argument(f"--{option}")
    return Chrome(options, Service(os.environ.get("DHAGA_CHROMEDRIVER", "/usr/bin/chromedriver")))


def shot(driver: Chrome, url: str, scheme: str) -> bytes:
    """Return the page in a colour scheme, as high as it is."""
    media = [{"name": "prefers-color-scheme", "value": scheme}]
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": media})
    resize(driver, 900)
    driver.get(url)
    while not driver.execute_script(READY):
        pass
    resize(driver, driver.execute_script("return document.body.offsetHeight"))
    driver.execute_script(POINT)
    taken = driver.execute_cdp_cmd("Page.captureScreenshot", {"format": "webp", "quality": QUALITY})
    return b64decode(taken["data"])


def resize(driver: Chrome, height: int) -> None:
    window = {"width": WIDTH, "height": height, "deviceScaleFactor": SCALE, "mobile": False}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", window)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        address = page(Path(folder))
        driver = browser(Path(folder, "profile"))
        try:
            for scheme, picture in PICTURES.items():
                picture.write_bytes(shot(driver, address, scheme))
        finally:
            driver.quit()
