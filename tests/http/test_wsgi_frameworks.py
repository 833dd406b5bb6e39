"""Flask and Django, the real packages, on the server: long polls, streams, files, uploads, error pages."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import django
import flask
import pytest
from django.conf import settings
from django.core.wsgi import get_wsgi_application
from django.http import FileResponse, HttpRequest, HttpResponse, JsonResponse, StreamingHttpResponse
from django.urls import path as route

import dhaga
from dhaga.http.wsgi import Server
from dhaga.threading import Condition
from tests.http.wire import Answer, answers, ask, chunked, get, post

pytestmark = pytest.mark.once

BOUNDARY = "Content-Type: multipart/form-data; boundary=xyz"


def form(content: bytes) -> bytes:
    """Return an upload, as a browser sends it."""
    head = b'--xyz\r\nContent-Disposition: form-data; name="file"; filename="a.bin"\r\n\r\n'
    return post(head + content + b"\r\n--xyz--\r\n", BOUNDARY, path="/upload")


class News:
    """What the long polls wait for."""

    def __init__(self) -> None:
        self.condition = Condition()
        self.text = ""
        self.waiting = 0

    def wait(self) -> str:
        with self.condition:
            self.waiting += 1
            self.condition.wait_for(lambda: self.text, 10)
            return self.text

    def tell(self, text: str) -> None:
        with self.condition:
            self.text = text
            self.condition.notify_all()


def flask_app(news: News, file: Path) -> Any:
    app = flask.Flask(__name__)
    app.logger.disabled = True

    @app.get("/poll")
    def poll() -> str:
        return f"{flask.request.args['me']}: {news.wait()} {flask.request.args['me']}"

    @app.get("/stream")
    def stream() -> Any:
        @flask.stream_with_context
        def pieces() -> Iterator[str]:
            for n in range(3):
                dhaga.sleep(0.001)
                yield f"{n} {flask.request.path}\n"

        return app.response_class(pieces(), mimetype="text/plain")  # type: ignore[call-arg]

    @app.get("/file")
    def send_file() -> Any:
        return flask.send_file(file, conditional=True)

    @app.post("/upload")
    def upload() -> Any:
        return {"size": len(flask.request.files["file"].read())}

    @app.post("/json")
    def of_json() -> Any:
        return {"got": flask.request.get_json()}

    @app.get("/error")
    def error() -> Any:
        raise KeyError("error")

    @app.get("/empty")
    def empty() -> Any:
        return "", 204

    return app


def django_app(news: News, file: Path) -> Any:
    def poll(request: HttpRequest) -> HttpResponse:
        return HttpResponse(f"{request.GET['me']}: {news.wait()} {request.GET['me']}")

    def stream(request: HttpRequest) -> StreamingHttpResponse:
        def pieces() -> Iterator[str]:
            for n in range(3):
                dhaga.sleep(0.001)
                yield f"{n} {request.path}\n"

        return StreamingHttpResponse(pieces(), content_type="text/plain")

    def send_file(request: HttpRequest) -> FileResponse:
        return FileResponse(file.open("rb"))

    def upload(request: HttpRequest) -> JsonResponse:
        return JsonResponse({"size": request.FILES["file"].size})

    def of_json(request: HttpRequest) -> JsonResponse:
        return JsonResponse({"got": json.loads(request.body)})

    def error(request: HttpRequest) -> HttpResponse:
        raise KeyError("error")

    def empty(request: HttpRequest) -> HttpResponse:
        return HttpResponse(status=204)

    views: list[Callable[..., Any]] = [poll, stream, upload, error, empty]
    urls = type("urls", (), {"urlpatterns": [route(view.__name__, view) for view in views]})
    urls.urlpatterns += [route("file", send_file), route("json", of_json)]  # type: ignore[attr-defined]
    if not settings.configured:
        settings.configure(ALLOWED_HOSTS=["*"], ROOT_URLCONF=urls, LOGGING_CONFIG=None, MIDDLEWARE=[], SECRET_KEY="a")
        django.setup()
    settings.ROOT_URLCONF = urls
    django.urls.clear_url_caches()
    django.urls.set_urlconf(None)
    return get_wsgi_application()


class Site:
    def __init__(self, make: Any, folder: Path) -> None:
        self.news = News()
        self.file = folder / "file.txt"
        self.file.write_bytes(b"0123456789" * 10_000)
        self.app = make(self.news, self.file)


@pytest.fixture(params=[flask_app, django_app], ids=["flask", "django"])
def site(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    logging.getLogger("django.request").disabled = True
    site: Any = Site(request.param, tmp_path)
    with Server(site.app) as site.server:
        yield site


def one(site: Any, data: bytes) -> Answer:
    found = Answer(ask(site.server, data), data.split(b" ")[0].decode())
    assert found.rest == b""
    return found


def test_fifty_long_polls_wait_at_once_each_with_its_own_request(site: Any) -> None:
    polls = [dhaga.spawn(one, site, get(f"/poll?me={n}")) for n in range(50)]
    while site.news.waiting < 50:
        dhaga.sleep(0.001)
    site.news.tell("hello")
    assert [poll.result(30).body.decode() for poll in polls] == [f"{n}: hello {n}" for n in range(50)]


def test_a_stream_comes_in_chunks(site: Any) -> None:
    found = one(site, get("/stream"))
    assert (found.fields["transfer-encoding"], found.body) == ("chunked", b"0 /stream\n1 /stream\n2 /stream\n")


def test_a_file_comes_whole_and_for_head_not_at_all(site: Any) -> None:
    assert one(site, get("/file")).body == site.file.read_bytes()
    found = one(site, get("/file", method="HEAD"))
    assert (found.body, found.fields["content-length"]) == (b"", str(site.file.stat().st_size))


def test_a_part_of_a_file_comes_to_who_asks_for_it(tmp_path: Path) -> None:
    site: Any = Site(flask_app, tmp_path)
    with Server(site.app) as site.server:
        found = one(site, get("/file", "Range: bytes=5-14"))
    assert (found.status, found.body) == ("206 PARTIAL CONTENT", b"5678901234")


def test_uploads_come_whole(site: Any) -> None:
    for size in (0, 10, 3_000_000):
        assert json.loads(one(site, form(bytes(size))).body) == {"size": size}


def test_chunked_uploads_come_whole(tmp_path: Path) -> None:
    """Flask's: Django takes no body without Content-Length, whatever the server."""
    site: Any = Site(flask_app, tmp_path)
    data = chunked(b'{"a": ', b"[1, 2]}", path="/json").replace(
        b"Host: x", b"Host: x\r\nContent-Type: application/json"
    )
    with Server(site.app) as site.server:
        assert json.loads(one(site, data).body) == {"got": {"a": [1, 2]}}


def test_an_error_is_the_frameworks_page_and_the_connection_goes_on(site: Any) -> None:
    first, second, third = answers(ask(site.server, get("/error") + get("/nowhere") + get("/empty")))
    assert [each.status[:3] for each in (first, second, third)] == ["500", "404", "204"]
    assert b"Server Error" in first.body or b"Internal Server Error" in first.body


def test_the_client_of_requests_is_served(site: Any) -> None:
    from dhaga.http import Session

    host, port = site.server.address
    with Session() as session:
        url = f"http://{host}:{port}"
        assert session.get(f"{url}/file").content == site.file.read_bytes()
        reply = session.post(f"{url}/upload", files={"file": ("a", io.BytesIO(bytes(100_000)))})
        assert reply.json() == {"size": 100_000}
