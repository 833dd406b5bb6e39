"""Connections and pools of urllib3 under a Session: cancels, TLS, proxies, adapters."""

from __future__ import annotations

import copy
import os
import pickle
import ssl as standard_ssl
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import requests as standard
import urllib3
from requests.adapters import HTTPAdapter
from requests.auth import HTTPDigestAuth
from urllib3.util import Retry

import dhaga
from dhaga import socket, ssl
from dhaga.http import Session
from dhaga.http._client.urllib3_pools import IDLE_SECONDS, IdleConnections
from dhaga.testing import cancel_at_every_park, virtual_clock
from tests.http.site import Gathering, Proxy, Request, Site, answer
from tests.kit.certificates import NAME, authority, certificate, server_context, stranger
from tests.kit.parking import victim
from tests.kit.scripts import prints
from tests.kit.sessions import Trickling, failing, get_all, socket_of


@pytest.fixture
def secure_site() -> Iterator[Site]:
    with Site(ssl_context=server_context()) as site:
        yield site


@pytest.fixture
def trust(tmp_path: Path) -> str:
    """A file with the certificate of the authority that the sites' certificates come from."""
    return written(tmp_path / "authority.pem", authority().cert_pem.bytes())


def written(path: Path, data: bytes) -> str:
    path.write_bytes(data)
    return str(path)


# ---- forks


@pytest.mark.once
def test_a_forked_child_and_its_parent_have_connections_of_their_own() -> None:
    lines = prints(
        """
        import http.server, os, threading
        from dhaga.http import Session

        class TellsConnection(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            def do_GET(self):
                body = str(self.client_address[1]).encode()
                self.send_response(200)
                self.send_header("Content-Length", len(body))
                self.end_headers()
                self.wfile.write(body)
            def log_message(self, *args):
                pass

        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), TellsConnection)
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        session = Session()
        get = lambda: session.get(f"http://127.0.0.1:{server.server_port}/").text
        first = get()
        pid = os.fork()
        if not pid:
            own = get()
            print(own != first, get() == own, flush=True)
            session.close()
            os._exit(0)
        os.waitpid(pid, 0)
        print(get() == first)
        """,
        "-W",
        "ignore::DeprecationWarning",
    )
    assert lines == ["True True", "True"]


# ---- cancels


def asked(site: Site, session: Session, ask: Callable[[], object], again: Callable[[], object]) -> Any:
    """Have a victim ask a site; once it has ended, ``again`` is to find the session as good as before."""
    site.server.start()

    def bears_what_requests_makes_of_it() -> None:
        try:
            ask()
        except standard.RequestException:
            pass

    asking = victim(bears_what_requests_makes_of_it)

    def afterwards() -> None:
        try:
            asking.join()
            again()
        finally:
            session.close()
            site.server.stop(0)

    return asking, dhaga.spawn(afterwards).result


def test_a_cancelled_request_leaves_no_connection_half_read() -> None:
    def scenario() -> Any:
        session, site = Session(), Site({"/late": lambda request: dhaga.sleep(1) or answer(bytes(100_000))})
        data = bytes(3_000_000)  # more than the buffers of a connection hold

        def ask() -> None:
            assert session.post(site.url("/late"), data=data).content == bytes(100_000)
            assert session.post(site.url(), data=b"again").text == "again"

        def again() -> None:
            assert session.get(site.url("/next")).text == "/next"

        return asked(site, session, ask, again)

    assert cancel_at_every_park(scenario) >= 3


def test_a_cancelled_stream_leaves_no_connection_half_read() -> None:
    def scenario() -> Any:
        session, site = Session(), Trickling()

        def ask() -> None:
            with session.get(site.url(), stream=True) as response:
                assert b"".join(response.iter_content(1)) == b"x" * 10

        return asked(site, session, ask, ask)

    assert cancel_at_every_park(scenario) >= 4


@pytest.mark.filterwarnings("ignore::urllib3.exceptions.InsecureRequestWarning")
def test_a_cancelled_handshake_closes_the_socket() -> None:
    def scenario() -> Any:
        session, site = Session(), Site(ssl_context=server_context())

        def ask() -> None:
            assert session.get(site.url("/page"), verify=False).text == "/page"

        return asked(site, session, ask, ask)

    assert cancel_at_every_park(scenario) >= 2


@pytest.mark.filterwarnings("ignore::urllib3.exceptions.InsecureRequestWarning")
def test_a_cancelled_tunnel_is_closed() -> None:
    def scenario() -> Any:
        session, site, proxy = Session(), Site(ssl_context=server_context()), Proxy(ssl_context=server_context())
        proxy.server.start()

        def ask() -> None:
            proxies = {"https": proxy.url()}
            assert session.get(site.url("/page"), verify=False, proxies=proxies).text == "/page"

        def again() -> None:
            ask()
            session.close()
            proxy.server.stop(0)

        return asked(site, session, ask, again)

    assert cancel_at_every_park(scenario) >= 4


@pytest.mark.logs  # urllib3 tells of tries that have failed
def test_a_cancel_ends_the_pause_between_two_tries() -> None:
    def scenario() -> Any:
        session, site = Session(), Site({"/": failing(2)})
        session.mount("http://", HTTPAdapter(max_retries=Retry(3, status_forcelist=[503], backoff_factor=1)))

        def ask() -> None:
            assert session.get(site.url()).text == "at last"

        return asked(site, session, ask, ask)

    assert cancel_at_every_park(scenario) >= 3


def test_a_cancelled_wait_for_a_connection_gives_back_no_more_than_it_got() -> None:
    def scenario() -> Any:
        session, busiest = Session(), Busiest()
        session.mount("http://", HTTPAdapter(pool_maxsize=1, pool_block=True))
        site = Site({"/": lambda request: dhaga.sleep(1) or answer(b"done"), "/again": busiest})

        def again() -> None:
            get_all(session, site.url("/again"), 4)
            assert busiest.most == 1

        victim, check = asked(site, session, lambda: session.get(site.url()), again)
        dhaga.spawn(session.get, site.url(), priority=dhaga.HIGH)  # the first to get the only connection
        return victim, check

    assert cancel_at_every_park(scenario) >= 2


class Busiest:
    """A page that takes a second, and knows how many have asked for it at once."""

    def __init__(self) -> None:
        self.now = self.most = 0

    def __call__(self, request: Request) -> bytes:
        self.now += 1
        self.most = max(self.most, self.now)
        dhaga.sleep(1)
        self.now -= 1
        return answer(b"done")


def test_a_bounded_pool_parks_those_beyond_it(session: Session) -> None:
    session.mount("http://", HTTPAdapter(pool_maxsize=2, pool_block=True))
    busiest = Busiest()
    with virtual_clock() as clock, Site({"/": busiest}) as site, session:
        assert [response.text for response in get_all(session, site.url(), 6)] == ["done"] * 6
        assert (busiest.most, clock(), site.connections) == (2, 3, 2)


def test_a_bounded_pool_keeps_its_size_when_its_connections_are_stale(session: Session) -> None:
    session.mount("http://", HTTPAdapter(pool_maxsize=3, pool_block=True))
    busiest = Busiest()
    with virtual_clock() as clock, Site({"/": busiest}) as site, session:
        get_all(session, site.url(), 3)
        dhaga.sleep(IDLE_SECONDS + 1)
        session.get(site.url("/alone"))
        before = clock()
        get_all(session, site.url(), 3)
        assert (busiest.most, clock() - before) == (3, 1)


# ---- TLS


def test_certificates_are_verified(secure_site: Site, session: Session, trust: str, tmp_path: Path) -> None:
    assert session.get(secure_site.url(), verify=trust).text == "/"
    assert session.get(secure_site.url(host=NAME), verify=trust).text == "/"
    with pytest.raises(standard.exceptions.SSLError, match="CERTIFICATE_VERIFY_FAILED"):
        session.get(secure_site.url(), verify=written(tmp_path / "other.pem", stranger().cert_pem.bytes()))
    with pytest.raises(standard.exceptions.SSLError, match="CERTIFICATE_VERIFY_FAILED"):
        session.get(secure_site.url())


def test_the_tls_socket_is_ours(secure_site: Site, session: Session, trust: str) -> None:
    with session.get(secure_site.url(), verify=trust, stream=True) as response:
        assert type(socket_of(response)) is ssl.SSLSocket


def test_a_tls_connection_is_used_again(secure_site: Site, session: Session, trust: str) -> None:
    for _ in range(3):
        assert session.get(secure_site.url(), verify=trust).text == "/"
    assert secure_site.connections == 1


def test_unverified_connections_are_warned_of(secure_site: Site, session: Session) -> None:
    with pytest.warns(urllib3.exceptions.InsecureRequestWarning):
        with session.get(secure_site.url(), verify=False, stream=True) as response:
            assert type(socket_of(response)) is ssl.SSLSocket


def test_the_bundle_of_the_environment_counts(
    secure_site: Site, session: Session, trust: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", trust)
    assert session.get(secure_site.url()).text == "/"


def test_a_client_shows_its_certificate(session: Session, trust: str, tmp_path: Path) -> None:
    context = server_context()
    context.verify_mode = standard_ssl.CERT_REQUIRED
    authority().configure_trust(context)
    mine = certificate("client.example")
    cert = written(tmp_path / "client.pem", b"".join(blob.bytes() for blob in mine.cert_chain_pems))
    key = written(tmp_path / "client.key", mine.private_key_pem.bytes())
    with Site(ssl_context=context) as site:
        assert session.get(site.url(), verify=trust, cert=(cert, key)).text == "/"
        with pytest.raises(standard.ConnectionError):
            session.get(site.url(), verify=trust)


def test_a_key_without_its_password_is_an_error_and_no_question(
    secure_site: Site, session: Session, trust: str, tmp_path: Path
) -> None:
    from cryptography.hazmat.primitives import serialization as forms

    mine = certificate("client.example")
    key = forms.load_pem_private_key(mine.private_key_pem.bytes(), None)
    secret = key.private_bytes(
        forms.Encoding.PEM, forms.PrivateFormat.PKCS8, forms.BestAvailableEncryption(b"password")
    )
    cert = written(tmp_path / "client.pem", mine.cert_chain_pems[0].bytes())
    with pytest.raises(standard.exceptions.SSLError, match="encrypted"):
        session.get(secure_site.url(), verify=trust, cert=(cert, written(tmp_path / "client.key", secret)))


def contexts_in_use(session: Session, site: Site, trust: str, count: int) -> set[int]:
    """Open connections at once, and return their contexts."""
    with dhaga.Scope() as scope:
        responses = [session.get(site.url(), verify=trust, stream=True) for _ in range(count)]
        found = {id(socket_of(response).context) for response in responses}
        for response in responses:
            response.close()
        scope.cancel()
    return found


def test_connections_share_a_context_until_its_file_changes(secure_site: Site, session: Session, trust: str) -> None:
    before = contexts_in_use(session, secure_site, trust, 5)
    assert len(before) == 1
    Path(trust).write_bytes(authority().cert_pem.bytes() + stranger().cert_pem.bytes())
    after = contexts_in_use(session, secure_site, trust, 5)
    assert len(after) == 1 and after != before


def test_a_context_of_somebody_else_makes_our_sockets(secure_site: Site, session: Session, trust: str) -> None:
    class OwnContext(HTTPAdapter):
        def init_poolmanager(self, *args: Any, **options: Any) -> None:
            context = standard_ssl.create_default_context(cafile=trust)
            super().init_poolmanager(*args, ssl_context=context, **options)

    session.mount("https://", OwnContext())
    with session.get(secure_site.url(), stream=True) as response:
        assert type(socket_of(response)) is ssl.SSLSocket


# ---- proxies


def test_http_goes_through_a_proxy(session: Session) -> None:
    with Proxy() as proxy:
        proxies = {"http": proxy.url()}
        assert session.get("http://nowhere.invalid/page", proxies=proxies).text == (
            "by proxy: http://nowhere.invalid/page"
        )


@pytest.mark.parametrize("tls", [False, True], ids=["proxy in clear", "proxy over TLS"])
def test_https_goes_through_a_tunnel(secure_site: Site, session: Session, trust: str, tls: bool) -> None:
    with Proxy(ssl_context=server_context() if tls else None) as proxy:
        text = session.get(secure_site.url(), proxies={"https": proxy.url()}, verify=trust).text
        assert (text, proxy.requests[0].method) == ("/", "CONNECT")


def test_a_proxy_over_tls_is_verified(secure_site: Site, session: Session, trust: str) -> None:
    context = server_context(stranger().issue_cert("127.0.0.1"))
    with Proxy(ssl_context=context) as proxy, pytest.raises(standard.exceptions.ProxyError, match="VERIFY_FAILED"):
        session.get(secure_site.url(), proxies={"https": proxy.url()}, verify=trust)


def test_the_environment_names_proxies(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    with Proxy() as proxy:
        monkeypatch.setenv("http_proxy", proxy.url())
        assert session.get("http://nowhere.invalid/").text == "by proxy: http://nowhere.invalid/"


def test_socks_is_refused(session: Session) -> None:
    with pytest.raises(standard.exceptions.InvalidSchema, match="SOCKS"):
        session.get("http://nowhere.invalid/", proxies={"http": "socks5://127.0.0.1:1"})


ENVIRONMENTS: list[dict[str, str]] = [
    {},
    {"HTTP_PROXY": "http://proxy:1"},
    {"https_proxy": "http://proxy:1", "no_proxy": "host.example"},
    {"ALL_PROXY": "http://proxy:1", "NO_PROXY": "*"},
    {"REQUESTS_CA_BUNDLE": "/bundle"},
    {"CURL_CA_BUNDLE": "/bundle", "http_proxy": ""},
]


SETTINGS: list[dict[str, Any]] = [
    {"trust_env": False},
    {"verify": False},
    {"verify": "/own", "stream": True, "cert": "/cert"},
    {"proxies": {"http": "http://own:1", "https": None}},
]


@pytest.mark.parametrize("environment", ENVIRONMENTS, ids=str)
def test_the_environment_is_merged_as_requests_does(
    session: Session, monkeypatch: pytest.MonkeyPatch, environment: dict[str, str]
) -> None:
    for name in [name for name in os.environ if name.lower().endswith("_proxy")]:
        monkeypatch.delenv(name)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    for settings in SETTINGS:
        theirs, ours = standard.Session(), Session()
        for each in (theirs, ours):
            vars(each).update(settings)
        for verify in (None, True, False, "/asked"):
            for proxies in ({}, {"http": "http://asked:1"}, {"http": None}):
                args = ("http://host.example/", None, verify, None)
                expected, got = (
                    each.merge_environment_settings(args[0], dict(proxies), *args[1:]) for each in (theirs, ours)
                )
                assert got == expected


# ---- adapters, copies, other threads


def test_whatever_adapter_is_mounted_parks(site: Site, session: Session) -> None:
    class Own(HTTPAdapter):
        def add_headers(self, request: Any, **options: Any) -> None:
            request.headers["X-Own"] = "yes"

    for adapter in (HTTPAdapter(), Own()):
        session.mount("http://", adapter)
        assert session.get_adapter(site.url()) is adapter
        with session.get(site.url(), stream=True) as response:
            assert type(socket_of(response)) is socket.socket
    assert site.requests[-1].headers["X-Own"] == "yes"


def test_an_adapter_that_was_in_use_parks_from_its_mount_on(session: Session) -> None:
    adapter = HTTPAdapter()
    scheduler = dhaga.Scheduler("site").start()
    site = scheduler.spawn(lambda: Site().__enter__()).result()
    with standard.Session() as plain:
        plain.mount("http://", adapter)
        plain.get(site.url())
        session.mount("http://", adapter)
        with session.get(site.url(), stream=True) as response:
            assert type(socket_of(response)) is socket.socket
    scheduler.spawn(site.__exit__).result()
    scheduler.stop()


@pytest.mark.parametrize("twin", [copy.copy, lambda it: pickle.loads(pickle.dumps(it))], ids=["copy", "pickle"])
def test_a_copy_parks_too(site: Site, session: Session, twin: Callable[[Session], Session]) -> None:
    session.headers["X-Own"] = "yes"
    session.mount("http://", HTTPAdapter(max_retries=Retry(3)))
    with twin(session) as other, other.get(site.url(), stream=True) as response:
        assert type(socket_of(response)) is socket.socket
        assert other.get_adapter("http://").max_retries.total == 3  # type: ignore[attr-defined]
    assert site.requests[0].headers["X-Own"] == "yes"


def test_a_digest_is_learnt_by_each_dhaga(session: Session) -> None:
    both = Gathering(2)

    def page(request: Request) -> bytes:
        if request.headers["Authorization"]:
            return answer(b"welcome")
        both(request)
        return answer(status="401 Unauthorized", WWW_Authenticate='Digest realm="r", nonce="n", qop="auth"')

    session.auth = HTTPDigestAuth("user", "password")
    with Site({"/": page}) as site:
        assert [response.text for response in get_all(session, site.url(), 2)] == ["welcome"] * 2


def test_dhagas_and_os_threads_share_a_session(session: Session) -> None:
    scheduler = dhaga.Scheduler("site").start()
    site = scheduler.spawn(lambda: Site().__enter__()).result()
    texts: list[str] = []

    def ask() -> None:
        texts.extend(session.get(site.url(f"/{number}")).text for number in range(20))

    threads = [threading.Thread(target=ask) for _ in range(3)]
    for thread in threads:
        thread.start()
    dhagas = [dhaga.spawn(ask) for _ in range(3)]
    everyone: list[Any] = [*dhagas, *threads]
    for each in everyone:
        each.join()
    scheduler.spawn(site.__exit__).result()
    scheduler.stop()
    assert sorted(texts) == sorted(f"/{number}" for number in range(20) for _ in range(6))


class WatchedLock:
    """A lock that nobody may hold while others run: it would not keep dhagas of one OS thread apart."""

    def __init__(self) -> None:
        self.holders: list[Any] = []
        self.times = 0

    def acquire(self) -> None:
        self.times += 1
        assert set(self.holders) <= {dhaga.current()}
        self.holders.append(dhaga.current())

    def release(self, *_: object) -> None:
        assert self.holders.pop() is dhaga.current()

    __enter__, __exit__ = acquire, release


def test_nobody_parks_under_the_locks_of_urllib3_and_of_cookies(session: Session) -> None:
    adapter: Any = HTTPAdapter(pool_connections=1, pool_maxsize=2, pool_block=True)
    jar: Any = session.cookies
    session.mount("http://", adapter)
    adapter.poolmanager.pools.lock, jar._cookies_lock = locks = WatchedLock(), WatchedLock()
    page = {"/": lambda request: dhaga.sleep(0.001) or answer(Set_Cookie="name=value")}
    with Site(page) as one, Site(page) as other:
        asking = [dhaga.spawn(session.get, site.url()) for _ in range(10) for site in (one, other)]
        assert {each.result().status_code for each in asking} == {200}
    assert all(lock.times > 20 for lock in locks)


def test_idle_connections_grow_old_by_a_virtual_clock() -> None:
    left, right = socket.socketpair()
    with virtual_clock(), left, right:
        pool = IdleConnections()
        pool.put(SimpleNamespace(close=left.close))
        dhaga.sleep(IDLE_SECONDS - 1)
        pool.put(SimpleNamespace(close=right.close))
        assert left.fileno() >= 0
        dhaga.sleep(2)
        pool.put(pool.get())
        assert left.fileno() < 0 <= right.fileno()


def test_a_connection_that_was_idle_for_long_is_not_used_again() -> None:
    left, right = socket.socketpair()
    with virtual_clock(), left, right:
        pool = IdleConnections()
        idle = SimpleNamespace(close=left.close)
        pool.put(idle)
        dhaga.sleep(IDLE_SECONDS - 1)
        assert pool.get() is idle and left.fileno() >= 0
        pool.put(idle)
        dhaga.sleep(IDLE_SECONDS + 1)
        assert pool.get() is idle and left.fileno() < 0
