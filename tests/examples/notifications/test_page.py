"""The page at /, in a real browser that has no window."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.examples.notifications.processes import Served, serving

CHROMIUM = os.environ.get("DHAGA_CHROMIUM", "/usr/bin/chromium")
CHROMEDRIVER = os.environ.get("DHAGA_CHROMEDRIVER", "/usr/bin/chromedriver")
OPTIONS = (
    *("headless", "no-sandbox", "disable-gpu", "disable-quic", "no-first-run", "disable-dev-shm-usage"),
    *("disable-background-networking", "disable-component-update", "disable-sync", "window-size=1100,900"),
)


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A browser with a profile of its own."""
    for variable, program in (("DHAGA_CHROMIUM", CHROMIUM), ("DHAGA_CHROMEDRIVER", CHROMEDRIVER)):
        if not shutil.which(program):
            pytest.skip(f"no program at {variable}={program}")
    from selenium.webdriver import Chrome, ChromeOptions
    from selenium.webdriver.chrome.service import Service

    options = ChromeOptions()
    options.binary_location = CHROMIUM
    for option in (*OPTIONS, f"user-data-dir={tmp_path_factory.mktemp('profile')}"):
        options.add_argument(f"--{option}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    browser = Chrome(options, Service(CHROMEDRIVER))
    yield browser
    browser.quit()


@pytest.fixture
def served() -> Iterator[Callable[..., Served]]:
    """Start a server in a process of its own."""
    with ExitStack() as stack:
        yield lambda *arguments: stack.enter_context(serving(*arguments))


def wait_for(browser: Any, script: str) -> Any:
    """Wait until a piece of JavaScript gives something."""
    from selenium.webdriver.support.ui import WebDriverWait

    return WebDriverWait(browser, 15, 0.05).until(lambda browser: browser.execute_script(f"return {script}"))


def text_of(browser: Any, id: str) -> str:
    return str(browser.find_element("id", id).text)


def errors(browser: Any) -> list[str]:
    return [entry["message"] for entry in browser.get_log("browser") if entry["level"] == "SEVERE"]


def test_what_is_published_on_the_page_arrives_there_and_is_counted(
    browser: Any, served: Callable[..., Served]
) -> None:
    server = served()
    browser.get(server.url)
    wait_for(browser, "source && source.readyState === 1")
    browser.find_element("id", "text").send_keys("Grüße <b>from the page</b>")
    browser.find_element("css selector", "#publish button").click()
    wait_for(browser, "document.querySelectorAll('#messages li').length")
    assert text_of(browser, "messages").endswith("Grüße <b>from the page</b>")
    wait_for(browser, "document.getElementById('answer').textContent.startsWith('published as')")
    server.post("news", "from elsewhere")
    wait_for(browser, "document.querySelectorAll('#messages li').length === 2")
    wait_for(browser, "document.getElementById('published').textContent === '2'")
    wait_for(browser, "rates.some(rate => rate > 0)")
    assert browser.execute_script("return document.getElementById('curve').getAttribute('d')").startswith("M")
    assert text_of(browser, "topics").split() == ["news", "1", "2"]
    assert text_of(browser, "clients") == "1"
    assert errors(browser) == []
    if picture := os.environ.get("DHAGA_SCREENSHOT"):
        Path(picture).write_bytes(browser.get_screenshot_as_png())


@pytest.mark.slow
def test_the_page_asks_for_a_token_and_works_with_it(browser: Any, served: Callable[..., Served]) -> None:
    server = served("--token", "secret")
    browser.get(server.url)
    wait_for(browser, "!document.getElementById('secret').hidden")
    browser.find_element("id", "token").send_keys("secret\t")
    wait_for(browser, "source && source.readyState === 1")
    browser.find_element("id", "text").send_keys("let in\n")
    wait_for(browser, "document.querySelectorAll('#messages li').length")
    assert text_of(browser, "messages").endswith("let in")
