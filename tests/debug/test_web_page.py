"""The page: whom it answers, and what it shows and does in a real browser that has no window."""

from __future__ import annotations

import http.client
import json
import os
import re
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import dhaga
import dhaga.socket
from dhaga._sync.lock import Lock
from dhaga.debug import Page, serve, trace
from dhaga.debug._remote import web_page
from dhaga.debug._remote.thread_server import MAX_CONNECTIONS
from dhaga.queue import Queue
from dhaga.testing import virtual_clock
from tests.debug import chrome
from tests.kit.browser import browsing
from tests.kit.inspectors import park_all

JSON = {"Content-Type": "application/json"}


@pytest.fixture
def observed() -> Iterator[dhaga.Scheduler]:
    with dhaga.Scheduler("observed") as scheduler:
        yield scheduler


@pytest.fixture
def served() -> Iterator[Page]:
    with serve() as served:
        yield served


def asked(served: Page, path: str, method: str = "POST", body: str = "{}", **fields: str) -> tuple[int, Any]:
    """Ask with the right token in the place of TOKEN; return the status, and what the JSON says."""
    connection = http.client.HTTPConnection("127.0.0.1", served.port, timeout=30)
    try:
        headers = JSON | {name.replace("_", "-"): value for name, value in fields.items()}
        connection.request(method, path.replace("TOKEN", served._token), body, headers)
        reply = connection.getresponse()
        text = reply.read()
        return reply.status, json.loads(text) if reply.getheader("Content-Type") == "application/json" else text
    finally:
        connection.close()


# ---- whom it answers


def test_it_listens_on_the_loopback_with_a_fresh_secret() -> None:
    with serve() as first, serve() as second:
        assert first._server.listener.getsockname() == ("127.0.0.1", first.port)
        assert first.url == f"http://127.0.0.1:{first.port}/?token={first._token}"
        assert first._token != second._token and len(first._token) == 32
        assert first._token not in repr(first)
    assert web_page.pages == []


@pytest.mark.parametrize(
    "path",
    ["/", "/table", "/?token=", "/?token=wrong", "/?token=TOKENx", "/?token=%FF", "//[", "//[::1]]:x/?token=wrong"],
)
def test_without_the_token_nothing_is_told(served: Page, path: str) -> None:
    for method in ("GET", "POST"):
        status, said = asked(served, path, method)
        assert (status, said["error"]) == (
            403,
            "the token is wrong: use the whole address from the program",
        )


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1.evil.example", "", "localhost.evil.example:80", "[", "a:b:c"]
)
def test_a_name_that_could_be_bound_to_another_address_is_refused(served: Page, host: str) -> None:
    assert asked(served, "/?token=TOKEN", "GET", Host=host) == (
        403,
        {"error": "use the number of the host, 127.0.0.1, or localhost in the address"},
    )


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost:8000", "[::1]:80"])
def test_the_number_of_the_host_is_good(served: Page, host: str) -> None:
    assert asked(served, "/table?token=TOKEN", Host=host)[0] == 200


def test_a_cancel_is_a_post_of_json_alone(served: Page, observed: dhaga.Scheduler) -> None:
    victim = observed.spawn(dhaga.sleep, 60, name="victim")
    body, path = json.dumps({"ident": victim.ident}), "/cancel?token=TOKEN"
    assert asked(served, path, "GET", body)[0] == 405
    assert asked(served, path, "POST", body, Content_Type="text/plain")[0] == 405
    assert victim.is_alive()
    assert asked(served, path, "POST", body) == (200, {"name": "victim", "cancelled": True})
    with pytest.raises(dhaga.Cancelled):
        victim.result(30)


def test_no_other_page_may_read_or_frame_it(served: Page) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", served.port)
    connection.request("GET", f"/?token={served._token}")
    reply = connection.getresponse()
    text = reply.read().decode()
    connection.close()
    assert reply.getheader("Access-Control-Allow-Origin") is None
    assert reply.getheader("Referrer-Policy") == "no-referrer"
    policy = reply.getheader("Content-Security-Policy") or ""
    assert "default-src 'none'" in policy and "frame-ancestors 'none'" in policy
    nonce = policy.partition("script-src 'nonce-")[2].partition("'")[0]
    assert f'<script nonce="{nonce}">' in text
    assert "://" not in text  # nothing is loaded from elsewhere
    assert '<link rel="icon" href="data:image/svg+xml,' in text


@pytest.mark.parametrize(
    "text",
    [
        b"GARBAGE\r\n\r\n",
        b"GET / HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nhost: localhost\r\n\r\n",
        b"PUT / HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET http://localhost/ HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET http://[ HTTP/1.1\r\nHost: localhost\r\n\r\n",
    ],
)
def test_what_is_no_request_of_the_page_is_refused(served: Page, text: bytes) -> None:
    with socket.create_connection(("127.0.0.1", served.port)) as client:
        client.sendall(text)
        assert client.makefile("rb").readline() == b"HTTP/1.1 400 Bad Request\r\n"


def test_a_request_too_long_is_not_read(served: Page) -> None:
    with socket.create_connection(("127.0.0.1", served.port)) as client:
        client.sendall(b"POST / HTTP/1.1\r\nContent-Length: 999999\r\n\r\n")
        assert client.recv(1) == b""


@pytest.mark.parametrize(
    ("ask", "body", "error"),
    [
        ("table", "[]", "a query is a JSON object"),
        ("table", "{", "a query is JSON"),
        ("table", "[" * 15_000, "a query is JSON"),
        ("exec", "{}", "there is no query 'exec'"),
        ("cancel", '{"ident": 0}', "it has ended, or is not a dhaga"),
    ],
)
def test_a_question_that_cannot_be_answered_is_refused_with_the_reason(
    served: Page, ask: str, body: str, error: str
) -> None:
    status, said = asked(served, f"/{ask}?token=TOKEN", body=body)
    assert status == 400
    assert said["error"].startswith(error)


def test_those_who_connect_and_ask_nothing_hold_nobody_up(served: Page) -> None:
    silent = [socket.create_connection(("127.0.0.1", served.port)) for _ in range(6)]
    assert asked(served, "/table?token=TOKEN")[0] == 200
    for each in silent:
        each.close()


@pytest.mark.parametrize("text", [b"", b"GET / HTTP/1.1\r\n"])
def test_slow_clients_cannot_shut_out_the_one_who_has_the_token(served: Page, text: bytes) -> None:
    slow = [socket.create_connection(("127.0.0.1", served.port)) for _ in range(2 * MAX_CONNECTIONS)]
    for each in slow:
        each.sendall(text)
    assert asked(served, "/table?token=TOKEN")[0] == 200
    with suppress(ConnectionResetError):  # where its text came between the server's last read and the close
        assert slow[0].recv(1) == b""  # the oldest has gone, and the newest is still heard
    slow[-1].sendall(b"GARBAGE\r\n\r\n")
    assert slow[-1].recv(15) == b"HTTP/1.1 400 Ba"
    for each in slow:
        each.close()


def test_a_request_has_its_time_as_a_whole(served: Page, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(web_page, "SOCKET_SECONDS", 0.2)
    with socket.create_connection(("127.0.0.1", served.port)) as slow, pytest.raises(ConnectionError):
        for _ in range(2000):
            slow.sendall(b"x")
            time.sleep(0.02)


def test_a_client_that_waits_for_its_answer_is_not_put_off_by_others(
    served: Page, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, go_on = threading.Event(), threading.Event()

    def answer(query: object) -> dict[str, Any]:
        begun.set()
        return {"waited": go_on.wait(30)}

    monkeypatch.setattr(served._queries, "answer", answer)
    with ThreadPoolExecutor() as pool:
        waiting = pool.submit(asked, served, "/dump?token=TOKEN")
        assert begun.wait(30)
        others = [socket.create_connection(("127.0.0.1", served.port)) for _ in range(2 * MAX_CONNECTIONS)]
        assert asked(served, "/?token=wrong")[0] == 403  # so all of them were accepted
        go_on.set()
        assert waiting.result(30) == (200, {"waited": True})
    for each in others:
        each.close()


@pytest.mark.parametrize("arguments", [{"host": "example.com"}, {"token": ""}, {"token": "short"}, {"token": "ä" * 10}])
def test_bad_arguments_are_refused(arguments: dict[str, str]) -> None:
    with pytest.raises(ValueError):
        serve(**arguments)


def test_a_port_that_is_taken_is_an_error(served: Page) -> None:
    with pytest.raises(OSError):
        serve(served.port)


# ---- in a browser


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A browser with a profile of its own."""
    with browsing(tmp_path_factory.mktemp("profile"), size="1300,900") as browser:
        yield browser


def wait_for(browser: Any, script: str) -> Any:
    """Wait until a piece of JavaScript gives something."""
    from selenium.common.exceptions import TimeoutException
    from selenium.webdriver.support.ui import WebDriverWait

    try:
        return WebDriverWait(browser, 60, 0.05).until(lambda browser: browser.execute_script(f"return {script}"))
    except TimeoutException as error:
        error.add_note(f"{script}\nthe rows: {names(browser)}")
        raise


def names(browser: Any) -> list[str]:
    return list(
        browser.execute_script("return [...document.querySelectorAll('#rows tr')].map(row => row.dataset.name)")
    )


def text_of(browser: Any, id: str) -> str:
    return str(browser.find_element("id", id).text)


def click(browser: Any, selector: str) -> None:
    """Click on what may be drawn anew at any moment."""
    wait_for(browser, f"document.querySelector({selector!r})")
    browser.execute_script(f"document.querySelector({selector!r}).click()")


def errors(browser: Any) -> list[str]:
    return [entry["message"] for entry in browser.get_log("browser") if entry["level"] == "SEVERE"]


def work() -> None:
    while True:
        sum(range(1000))
        dhaga.sleep(0.001)


@pytest.mark.once
def test_the_page_shows_who_is_there_and_what_runs_and_cancels_one(
    browser: Any, served: Page, observed: dhaga.Scheduler
) -> None:
    lock = Lock()
    markup = observed.spawn(lock.acquire, name="<i>first</i>")
    victim = observed.spawn(lock.acquire, name="victim")
    observed.spawn(work, name="worker", daemon=True)
    browser.get(served.url)
    wait_for(browser, "document.querySelectorAll('#rows tr').length === 2")  # the first one has got the lock, and ended
    assert not markup.is_alive()
    assert sorted(names(browser)) == ["victim", "worker"]
    assert text_of(browser, "title").startswith(("2 dhagas, all ", "2 dhagas: "))
    assert browser.title == f"{text_of(browser, 'title')} · Dhaga"
    assert text_of(browser, "process") == f"process {os.getpid()}"

    wait_for(browser, "Number(document.getElementById('canvas').dataset.slices) > 0")
    wait_for(browser, "trace.traceEvents.some(event => event.ph === 'M' && event.args.name === 'worker')")

    browser.find_element("id", "filter").send_keys("lock.acq")
    wait_for(browser, "document.querySelectorAll('#rows tr').length === 1")
    assert names(browser) == ["victim"]
    click(browser, "#rows tr")
    wait_for(browser, "document.getElementById('dump').textContent.includes('lock.acquire')")
    assert text_of(browser, "dump").startswith("victim WAITING, waits for")

    click(browser, "#cancel")
    assert text_of(browser, "cancel") == "cancel victim, really?"
    assert victim.is_alive()
    if picture := os.environ.get("DHAGA_SCREENSHOT"):
        Path(picture).write_bytes(browser.get_screenshot_as_png())
    click(browser, "#cancel")
    with pytest.raises(dhaga.Cancelled):
        victim.result(30)
    wait_for(browser, "document.getElementById('done').textContent === 'victim is cancelled'")
    wait_for(browser, "document.querySelectorAll('#rows tr').length === 0")
    assert errors(browser) == []
    observed.call(observed.cancel_all)


@pytest.mark.once
def test_the_page_sorts_names_circles_and_dumps_all_while_a_dhaga_holds_the_thread(
    browser: Any, served: Page, observed: dhaga.Scheduler
) -> None:
    locks, let_go = (Lock(), Lock()), []

    def cross(first: Lock, second: Lock) -> None:
        with first:
            while not second.locked():
                dhaga.sleep(0)
            second.acquire()

    def hold() -> None:
        while any(not dhaga.parked for dhaga in both):
            dhaga_sleep(0)
        while not let_go:
            pass

    dhaga_sleep = dhaga.sleep
    both = [observed.spawn(cross, *locks, name="<b>"), observed.spawn(cross, *locks[::-1], name="a")]
    observed.spawn(hold, name="holder")
    browser.get(served.url)
    wait_for(browser, "document.getElementById('cycles').textContent.startsWith('deadlock: <b> waits for a waits for')")
    click(browser, "th[data-sort=name]")
    wait_for(browser, "document.querySelector('#rows tr').dataset.name === '<b>'")
    click(browser, "#all")
    wait_for(browser, "document.getElementById('dump').textContent.includes('busy, it did not answer')")
    let_go.append(True)
    observed.call(observed.cancel_all)


@pytest.mark.once
def test_the_page_says_when_the_process_does_not_answer(browser: Any, observed: dhaga.Scheduler) -> None:
    with serve() as served:
        browser.get(served.url)
        wait_for(browser, "document.getElementById('process').textContent.startsWith('process')")
    wait_for(browser, "document.getElementById('trouble').textContent.startsWith('the process does not answer')")


@pytest.mark.once
def test_the_page_draws_the_file_of_a_trace(browser: Any, served: Page, tmp_path: Path) -> None:
    path, other = tmp_path / "trace.json", tmp_path / "other.json"
    other.write_text("[]")
    with virtual_clock(), trace(path):
        items: Queue[int] = Queue()
        consumer = dhaga.spawn(items.get, name="consumer")
        dhaga.spawn(items.put, 1, name="producer")
        consumer.join()
    browser.get(served.url)
    browser.find_element("id", "file").send_keys(str(path))
    picture = chrome.read(path)
    wait_for(
        browser, f"document.getElementById('canvas').dataset.slices === '{sum(map(len, picture.tracks.values()))}'"
    )
    assert browser.execute_script("return canvas.dataset.arrows") == "0"  # none is pointed at
    point = "point([...names].find(([, name]) => name === 'consumer')[0]); return Number(canvas.dataset.arrows)"
    assert browser.execute_script(point) == sum("consumer" in arrow for arrow in picture.arrows) > 0
    shown = browser.execute_script("return boxes.map(box => box.text.split(',')[0])")
    assert {"consumer: queue.get", "producer: running", "hub of virtual: event loop"} <= set(shown)
    assert browser.execute_script("return canvas.dataset.axis").startswith("0 ")
    first = "trace.slices.get([...names].find(([, name]) => name === 'consumer')[0])[0]"
    browser.execute_script(f"{first}.args = {{preempted_at: 'x.py:1 in f'}}; drawTrace()")
    shown = browser.execute_script("return boxes.map(box => box.text)")
    assert sum(text.endswith(" ms, preempted at x.py:1 in f") for text in shown) == 1
    assert not browser.find_element("id", "tracing").is_selected()
    if shot := os.environ.get("DHAGA_SCREENSHOT"):
        Path(shot).with_suffix(".trace.png").write_bytes(browser.get_screenshot_as_png())
    browser.find_element("id", "file").send_keys(str(other))
    wait_for(browser, "document.getElementById('trouble').textContent === 'other.json is no trace'")
    looks = browser.execute_script("return answered")
    wait_for(browser, f"answered > {looks + 1}")  # a look has ended meanwhile: it takes nothing back
    assert text_of(browser, "trouble") == "other.json is no trace"
    browser.find_element("id", "file").send_keys(str(path))
    wait_for(browser, "document.getElementById('trouble').textContent === ''")


@pytest.mark.once
def test_the_page_can_be_used_by_keyboard(browser: Any, served: Page, observed: dhaga.Scheduler) -> None:
    for name in ("b", "a"):
        observed.spawn(dhaga.sleep, 60, name=name)
    browser.get(served.url)
    wait_for(browser, "document.querySelectorAll('#rows tr').length === 2")
    press = (
        "const [selector, key] = arguments, place = document.querySelector(selector); place.focus();"
        "place.dispatchEvent(new KeyboardEvent('keydown', {key, bubbles: true}));"
        "return document.activeElement === place"
    )
    assert browser.execute_script(press, "th[data-sort=name]", " ")
    wait_for(browser, "document.querySelector('#rows tr').dataset.name === 'a'")
    assert browser.execute_script(press, "#rows tr", "Enter")
    wait_for(browser, "document.getElementById('dump').textContent.startsWith('a WAITING')")
    assert browser.execute_script("return document.activeElement.dataset.name") == "a"  # also when drawn anew
    browser.execute_script(press, "#rows tr", "ArrowDown")
    assert browser.execute_script("return document.activeElement.dataset.name") == "b"
    named = "each => each.labels?.length || each.ariaLabel"
    unnamed = f"return [...document.querySelectorAll('select, canvas, input')].filter(each => !({named})(each)).length"
    assert browser.execute_script(unnamed) == 0
    observed.call(observed.cancel_all)


@pytest.mark.once
def test_a_trace_is_zoomed_and_held_and_a_bar_leads_to_its_dhaga(
    browser: Any, served: Page, observed: dhaga.Scheduler
) -> None:
    worker = observed.spawn(work, name="worker", daemon=True)
    browser.get(served.url)
    wait_for(browser, "[...names.values()].includes('worker') && pointed === null")
    browser.execute_script(
        POINTER + "pointer('pointerdown', 0.5); pointer('pointermove', 0.75); pointer('pointerup', 0.75)"
    )
    view = browser.execute_script("return view")
    assert (round(view["from"] / 1e6, 1), round(view["to"] / 1e6, 1)) == (1.0, 1.5)
    assert browser.execute_script("return canvas.dataset.axis.split(', ')[0]") in ("−0.5 s", "−500 ms")
    looks = browser.execute_script("return answered")
    wait_for(browser, f"answered > {looks + 1}")
    assert browser.execute_script("return view") == view  # held, and it says so
    assert text_of(browser, "tracks").startswith("held still")
    browser.execute_script(POINTER + "pointer('pointermove', 0.5)")
    assert browser.execute_script("return names.get(pointed)") == "worker"
    browser.execute_script(POINTER + "pointer('pointerdown', 0.5); pointer('pointerup', 0.5)")
    wait_for(browser, "document.getElementById('dump').textContent.startsWith('worker ')")
    assert browser.execute_script("return chosen") == worker.ident

    key = "byId('canvas').dispatchEvent(new KeyboardEvent('keydown', {key: arguments[0], bubbles: true})); return view"
    zoomed = browser.execute_script(key, "+")
    assert zoomed["to"] - zoomed["from"] == pytest.approx((view["to"] - view["from"]) / 2)
    assert browser.execute_script(key, "ArrowLeft")["from"] < zoomed["from"]
    assert browser.execute_script(key, "0") is None
    wait_for(browser, "!document.getElementById('tracks').textContent.startsWith('held')")
    browser.execute_script(key, "ArrowDown")
    browser.execute_script("closeDump()")
    browser.execute_script(key, "Enter")
    wait_for(browser, "!document.getElementById('detail').hidden || document.getElementById('trouble').textContent")
    observed.call(observed.cancel_all)


POINTER = """
    const pointer = (kind, share) => {
      const box = canvas.getBoundingClientRect(), [left, width] = sides();
      const row = tracks.findIndex(each => names.get(each) === 'worker');
      const clientX = box.left + left + share * (width - left), clientY = box.top + AXIS + (row + 0.5) * HEIGHT;
      canvas.dispatchEvent(new PointerEvent(kind, {clientX, clientY, bubbles: true, button: 0, pointerType: "pen"}));
    };
"""


@pytest.mark.once
def test_the_names_of_a_deadlock_lead_to_their_dumps(browser: Any, served: Page, observed: dhaga.Scheduler) -> None:
    locks = Lock(), Lock()

    def cross(first: Lock, second: Lock) -> None:
        with first:
            while not second.locked():
                dhaga.sleep(0)
            second.acquire()

    observed.spawn(cross, *locks, name="left")
    observed.spawn(cross, *locks[::-1], name="right")
    browser.get(served.url)
    click(browser, "#cycles button[data-name=right]")
    wait_for(browser, "document.getElementById('dump').textContent.startsWith('right WAITING')")
    assert wait_for(browser, "document.querySelector('#rows tr.chosen')?.dataset.name") == "right"
    observed.call(observed.cancel_all)


@pytest.mark.once
def test_who_blocks_in_c_is_named_with_the_cure_above_the_table(
    browser: Any, served: Page, observed: dhaga.Scheduler
) -> None:
    let_go: list[bool] = []

    def block() -> None:
        while not let_go:
            time.sleep(0.3)
            dhaga.sleep(0)

    observed.spawn(block, name="<blocker>")
    browser.get(served.url)
    said = "document.getElementById('blocks').textContent"
    wait_for(
        browser, f"{said}.startsWith('<blocker> holds observed for ') && {said}.includes('from dhaga import time')"
    )
    held, cpu = wait_for(
        browser, "['held', 'cpu'].map(column => document.querySelector(`#rows td.${column}`).textContent)"
    )
    assert int(held.rstrip("%")) > int(cpu.rstrip("%"))
    let_go.append(True)


@pytest.mark.once
def test_the_last_minutes_are_curves_and_the_page_says_when_it_looked(
    browser: Any, served: Page, observed: dhaga.Scheduler
) -> None:
    sleepers = [observed.spawn(dhaga.sleep, 60) for _ in range(3)]
    park_all(observed, *sleepers)
    browser.get(served.url)
    wait_for(browser, "past.length > 1 && past.at(-1)[2] === 3")
    label = wait_for(browser, "parked.ariaLabel")
    assert re.fullmatch(r"parked: 3, at most 3 in 60 s", label)
    assert browser.execute_script("return preempted.parentElement.hidden")
    browser.execute_script("past.at(-1)[4] = 12.2; drawPast()")
    assert browser.execute_script("return preempted.ariaLabel") == "preempted: 12/s, at most 12/s in 60 s"
    assert not browser.execute_script("return preempted.parentElement.hidden")
    before = browser.execute_script("return past[0][0]")
    move = (
        "lag.dispatchEvent(new PointerEvent('pointermove', {clientX: lag.getBoundingClientRect().left, bubbles: true}))"
    )
    browser.execute_script(move)
    assert re.search(r"lag: .*, \d+ s ago, at most", browser.execute_script("return lag.ariaLabel"))
    browser.get(served.url)  # the past is there at once, as the process keeps it
    assert wait_for(browser, "past.length && past[0][0]") == before
    click(browser, "#live")
    assert re.fullmatch(
        r"looked \d+ s ago", wait_for(browser, "/ s ago/.test(looked.textContent) && looked.textContent")
    )
    for each in sleepers:
        each.cancel()


# ---- how it looks


@pytest.fixture
def crowded(observed: dhaga.Scheduler) -> Iterator[dhaga.Scheduler]:
    """A scheduler with rows of all kinds: waiters of a lock, dhagas that read files of their own, one that works."""
    lock = Lock()

    def hold() -> None:
        with lock:
            dhaga.sleep(60)

    pairs = [dhaga.socket.socketpair() for _ in range(3)]
    park_all(observed, observed.spawn(hold, name="holder of the lock"))
    waiters = [observed.spawn(lock.acquire, name=f"consumer-{number}") for number in range(39)]
    readers = [observed.spawn(ours.recv, 1, name=f"reader-{number}") for number, (ours, _) in enumerate(pairs)]
    park_all(observed, *waiters, *readers)
    observed.spawn(work, name="worker", daemon=True)
    yield observed
    observed.call(observed.cancel_all)
    for waiter in waiters:
        waiter.join()
    for reader in readers:
        reader.join()
    for pair in pairs:
        for each in pair:
            each.close()


def shown_as(browser: Any, width: int, scheme: str = "light") -> None:
    """Give the window a width and a colour scheme."""
    window = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", window)
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})


@pytest.fixture
def as_it_was(browser: Any) -> Iterator[Any]:
    """The browser, whose window is as it was after the test."""
    yield browser
    browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


LOCK_GROUP = "document.querySelector('tr.group[data-count=\"39\"]')"


@pytest.mark.once
def test_groups_say_how_many_they_stand_for_where_the_table_is_cut(
    browser: Any, served: Page, observed: dhaga.Scheduler
) -> None:
    errors(browser)  # of the tests before
    sleepers = [observed.spawn(dhaga.sleep, 600, name=f"sleeper-{number}") for number in range(300)]
    lock = Lock()
    with lock:
        waiters = [observed.spawn(lock.acquire, name=f"consumer-{number}") for number in range(25)]
        park_all(observed, *sleepers, *waiters)
        browser.get(served.url)
        heads = "[...document.querySelectorAll('tr.group td.name')].map(cell => cell.textContent).sort()"
        of_waiters, of_sleepers = wait_for(browser, f"{heads}.length === 2 && {heads}")
        assert (of_waiters, of_sleepers) == ("▸25 × consumer-…", "▸300 × sleeper-…")
        assert text_of(browser, "matching") == ""
        click(browser, "#grouping")
        assert re.fullmatch(
            r"12\d of 32\d not shown", wait_for(browser, "document.querySelector('#matching').textContent")
        )
        observed.call(observed.cancel_all)
        for each in sleepers:
            each.join()
        for waiter in waiters:
            waiter.join()
    assert errors(browser) == []


@pytest.mark.once
def test_rows_of_one_reason_are_a_group_that_is_unfolded(browser: Any, served: Page, crowded: dhaga.Scheduler) -> None:
    errors(browser)  # of the tests before
    browser.get(served.url)
    wait_for(browser, LOCK_GROUP)
    cells = f"[...{LOCK_GROUP}.cells].map(cell => cell.textContent)"
    assert wait_for(browser, cells)[0] == "▸39 × consumer-…"
    assert wait_for(browser, cells)[7] == "<Lock held by holder of the lock, 39 parked>"
    readers = "document.querySelector('tr.group[data-count=\"3\"]')"
    assert wait_for(browser, f"[...{readers}.cells].map(cell => cell.textContent)")[6] == "read fd …"
    assert not any(name.startswith("consumer") for name in names(browser) if name)
    assert "worker" in wait_for(browser, "[...document.querySelectorAll('#rows tr')].map(row => row.dataset.name)")

    browser.execute_script(f"{LOCK_GROUP}.focus(); {LOCK_GROUP}.querySelector('button').click()")
    members = "document.querySelectorAll('tr.member[data-name^=consumer]').length"
    assert wait_for(browser, members) == 39
    browser.execute_script("window.before = answered")
    wait_for(browser, "answered > before + 1")
    assert wait_for(browser, members) == 39  # it stays unfolded while the rows are drawn anew
    assert browser.execute_script(f"return document.activeElement === {LOCK_GROUP}")
    browser.execute_script(f"{LOCK_GROUP}.click()")
    wait_for(browser, f"{members} === 0")

    click(browser, "#grouping")
    wait_for(browser, "!document.querySelector('#rows tr.group')")
    shown = names(browser)  # and the main code of any scheduler that tests before it left
    assert sum(name.startswith("consumer-") for name in shown) == 39
    assert {"holder of the lock", "reader-0", "reader-1", "reader-2", "worker"} <= set(shown)
    click(browser, "#reasons button[data-reason='read fd']")
    wait_for(browser, "document.querySelectorAll('#rows tr').length === 3")
    assert text_of(browser, "matching") == "3 found"
    assert errors(browser) == []


WIDER_THAN_SHOWN = """
    const all = [document.documentElement, people, table, dump];
    return all.filter(each => each.scrollWidth > each.clientWidth).map(each => each.id);
"""
RIGHTMOST = """
    const all = [...document.querySelectorAll("th, td, button, input, section")];
    return Math.max(...all.map(each => each.getBoundingClientRect().right));
"""


@pytest.mark.once
@pytest.mark.parametrize("width", [1280, 500])
def test_nothing_is_cut_off_at_the_side(as_it_was: Any, served: Page, crowded: dhaga.Scheduler, width: int) -> None:
    browser = as_it_was
    shown_as(browser, width)
    with dhaga.Scheduler("another scheduler") as another:
        another.spawn(dhaga.sleep, 60, name="sleeper")
        browser.get(served.url)
        wait_for(browser, "Number(canvas.dataset.slices) > 0")
        click(browser, "tr.group[data-count='39']")
        click(browser, "tr.member")
        wait_for(browser, "!document.getElementById('detail').hidden")
        for script in ("", "byId('close').click()"):
            browser.execute_script(script)
            assert browser.execute_script("return innerWidth") == width
            assert browser.execute_script(WIDER_THAN_SHOWN) == []
            assert browser.execute_script(RIGHTMOST) <= width
        assert browser.execute_script("return document.querySelector('td.scheduler').getBoundingClientRect().width") > 0
        another.call(another.cancel_all)


@pytest.mark.once
def test_the_trace_has_an_axis_and_a_legend(as_it_was: Any, served: Page, crowded: dhaga.Scheduler) -> None:
    browser = as_it_was
    shown_as(browser, 1280)
    browser.get(served.url)
    wait_for(browser, "Number(canvas.dataset.slices) > 0")
    assert browser.execute_script("return canvas.dataset.axis") == ", ".join(
        ["now", *(f"−{tenth / 10:g} s" for tenth in range(2, 21, 2))]
    )
    legend = text_of(browser, "legend")
    assert all(word in legend for word in ("runs", "waits", "event loop", "wakes another", "blank"))
    shown_as(browser, 500)
    wait_for(browser, "canvas.dataset.axis.split(', ').length < 7")  # drawn anew as the window changes


@pytest.mark.once
def test_the_colours_are_those_of_the_scheme(as_it_was: Any, served: Page, crowded: dhaga.Scheduler) -> None:
    browser = as_it_was
    seen = {}
    for scheme in ("light", "dark"):
        shown_as(browser, 1280, scheme)
        browser.get(served.url)
        wait_for(browser, "Number(canvas.dataset.slices) > 0")
        style = "getComputedStyle(document.body)"
        seen[scheme] = [
            sum(map(int, re.findall(r"\d+", browser.execute_script(f"return {style}.{which}"))))
            for which in ("backgroundColor", "color")
        ]
    assert seen["light"][0] > 600 > 200 > seen["light"][1]
    assert seen["dark"][1] > 600 > 200 > seen["dark"][0]
    browser.execute_script("window.drawn = canvas.toDataURL()")
    shown_as(browser, 1280, "light")
    wait_for(browser, "canvas.toDataURL() !== window.drawn")
    if picture := os.environ.get("DHAGA_SCREENSHOT"):
        Path(picture).with_suffix(".looks.png").write_bytes(browser.get_screenshot_as_png())
