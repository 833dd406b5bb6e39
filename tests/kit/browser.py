"""A real browser without a window, if one is installed."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

CHROMIUM = os.environ.get("DHAGA_CHROMIUM", "/usr/bin/chromium")
CHROMEDRIVER = os.environ.get("DHAGA_CHROMEDRIVER", "/usr/bin/chromedriver")
OPTIONS = (
    *("headless", "no-sandbox", "disable-gpu", "disable-quic", "no-first-run", "disable-dev-shm-usage"),
    *("disable-background-networking", "disable-component-update", "disable-sync"),
)


@contextmanager
def browsing(profile: Path, size: str = "1100,900", **logs: str) -> Iterator[Any]:
    """Yield a browser with its own profile, which keeps these logs. Skip the test if no browser is installed."""
    for variable, program in (("DHAGA_CHROMIUM", CHROMIUM), ("DHAGA_CHROMEDRIVER", CHROMEDRIVER)):
        if not shutil.which(program):
            pytest.skip(f"no program at {variable}={program}")
    from selenium.webdriver import Chrome, ChromeOptions
    from selenium.webdriver.chrome.service import Service

    options = ChromeOptions()
    options.binary_location = CHROMIUM
    for option in (*OPTIONS, f"window-size={size}", f"user-data-dir={profile}"):
        options.add_argument(f"--{option}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", **logs})
    browser = Chrome(options, Service(CHROMEDRIVER))
    try:
        yield browser
    finally:
        browser.quit()
