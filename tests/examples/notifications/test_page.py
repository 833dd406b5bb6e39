"""The page at /, in a real browser that has no window."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.examples.notifications.processes import Served, serving
from tests.kit.browser import browsing


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with browsing(tmp_path_factory.mktemp("profile")) as browser:
        yield browser


@pytest.fixture
def served() -> Iterator[Callable[..., Served]]:
    """Start a server in a process of its own."""
    with ExitStack() as stack:
        yield lambda *arguments: stack.enter_context(serving(*arguments))


def wait_for(browser: Any, script: str) -> Any:
    """Wait until a piece of JavaScript gives something."""
    from selenium.webdriver.support.ui import WebDriverWait

    return WebDriverWait(browser, 60, 0.05).until(lambda browser: browser.execute_script(f"return {script}"))


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


def test_a_page_without_messages_says_how_to_publish_and_draws_no_axes(
    browser: Any, served: Callable[..., Served]
) -> None:
    server = served()
    browser.get(server.url)
    wait_for(browser, "source && source.readyState === 1 && rates.length > 1")
    assert browser.execute_script("return document.querySelectorAll('#grid *').length") == 0
    assert text_of(browser, "idle").startswith("Nothing published yet")
    assert text_of(browser, "how") == f"curl -d 'hello' {server.url}topics/news"
    assert text_of(browser, "hear") == f"curl -N '{server.url}events?topic=news'"
    for line in (text_of(browser, "how"), text_of(browser, "hear")):
        assert line in server.told
    server.post("news", "hello")
    wait_for(browser, "document.getElementById('unheard').hidden && document.getElementById('idle').hidden")
    assert browser.execute_script("return document.querySelectorAll('#grid text').length") == 3


@pytest.mark.slow
def test_the_page_asks_for_a_token_and_works_with_it(browser: Any, served: Callable[..., Served]) -> None:
    server = served("--token", "secret")
    browser.get(server.url)
    wait_for(browser, "!document.getElementById('secret').hidden")
    assert "Bearer $TOKEN" in text_of(browser, "how")
    browser.find_element("id", "token").send_keys("secret\t")
    wait_for(browser, "source && source.readyState === 1")
    browser.find_element("id", "text").send_keys("let in\n")
    wait_for(browser, "document.querySelectorAll('#messages li').length")
    assert text_of(browser, "messages").endswith("let in")
