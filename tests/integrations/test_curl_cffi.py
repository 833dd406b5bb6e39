"""curl_cffi in dhagas: transfers in OS threads, which end before their handle is used again."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

import dhaga
from tests.kit.scripts import PATIENCE, prints

curl_cffi = pytest.importorskip("curl_cffi")
requests = pytest.importorskip("curl_cffi.requests")

from dhaga.integrations import curl_cffi as integration  # noqa: E402


class Site:
    """A server that answers once it may."""

    def __init__(self) -> None:
        self.asked, self.may_answer = threading.Event(), threading.Event()
        site = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                site.asked.set()
                site.may_answer.wait(PATIENCE)
                self.send_response(200)
                self.send_header("Content-Length", "2")
                self.end_headers()
                self.wfile.write(b"ok")

            def log_message(self, *_: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = "http://{}:{}/".format(*self.server.server_address)


@pytest.fixture
def site() -> Iterator[Site]:
    site = Site()
    thread = threading.Thread(target=site.server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    integration.install()
    yield site
    integration.uninstall()
    site.may_answer.set()
    site.server.shutdown()
    thread.join()
    site.server.server_close()


def test_a_transfer_parks_and_a_cancel_waits_for_its_end(site: Site) -> None:
    with requests.Session() as session:
        asking = dhaga.spawn(session.get, site.url)
        dhaga.offload(site.asked.wait, PATIENCE)
        assert asking.reason == "offload curl"
        asking.cancel()
        dhaga.sleep(0)
        assert asking.is_alive()
        site.may_answer.set()
        asking.join()
        assert dhaga.spawn(session.get, site.url).result().text == "ok"


def test_a_plain_thread_blocks_as_before(site: Site) -> None:
    site.may_answer.set()
    answers: list[str] = []
    thread = threading.Thread(target=lambda: answers.append(requests.get(site.url).text))
    thread.start()
    thread.join()
    assert answers == ["ok"]


def test_the_patch_installs_it_at_the_import() -> None:
    assert prints("""
    import dhaga.monkey
    dhaga.monkey.patch()
    from curl_cffi import Curl
    print(Curl.perform.__module__, hasattr(Curl.perform, "__wrapped__"))
    dhaga.monkey.unpatch()
    print(hasattr(Curl.perform, "__wrapped__"))
    """) == ["curl_cffi.curl True", "False"]
