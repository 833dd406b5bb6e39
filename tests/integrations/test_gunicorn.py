"""gunicorn with our worker, as its users run it: in processes of their own, over real sockets."""

from __future__ import annotations

import os
import signal
import socket
import ssl
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from types import SimpleNamespace

import h2.connection
import pytest
import requests

from dhaga.integrations.gunicorn import Worker
from tests.integrations.gunicorns import Gunicorn, rest, until
from tests.integrations.served import LARGE
from tests.kit.certificates import certificate, client_context

CROWD = 200


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gunicorn]:
    """One that most of the tests ask."""
    place = tmp_path_factory.mktemp("gunicorn")
    options = "-b 127.0.0.1:0 --access-logfile - --limit-request-line 100 --worker-connections 300 --keep-alive 30"
    with Gunicorn(place / "log", *options.split(), DHAGA_CROWD=str(CROWD)) as gunicorn:
        yield gunicorn


# ---- requests


@pytest.mark.once
def test_one_worker_serves_200_requests_at_once(shared: Gunicorn) -> None:
    with ExitStack() as stack:
        clients = [stack.enter_context(shared.asked("/meet")) for _ in range(CROWD)]
        assert all(rest(client).endswith(b"met\n") for client in clients)
    assert len(shared.workers()) == 1


@pytest.mark.once
def test_a_connection_is_kept_for_the_next_request(shared: Gunicorn) -> None:
    with requests.Session() as session:
        assert [session.get(f"{shared.url}{path}").text for path in ("/", "/nothing", "/")] == [
            "hello\n",
            "",
            "hello\n",
        ]
        assert session.post(f"{shared.url}/echo", data=b"x" * 300_000).content == b"x" * 300_000


@pytest.mark.once
def test_context_variables_of_a_request_do_not_reach_the_next_of_its_connection(shared: Gunicorn) -> None:
    with requests.Session() as session:
        assert {session.get(f"{shared.url}/remember?{user}").text for user in ("alice", "bob")} == {"nothing\n"}


@pytest.mark.once
def test_pipelined_requests_are_answered_in_order(shared: Gunicorn) -> None:
    with socket.create_connection(shared.address, 10) as sock:
        sock.sendall(b"GET /worker HTTP/1.1\r\n\r\nHEAD / HTTP/1.1\r\n\r\nGET / HTTP/1.1\r\nConnection: close\r\n\r\n")
        answers = rest(sock)
    assert answers.count(b"HTTP/1.1 200 OK") == 3
    assert answers.endswith(b"\r\n\r\nhello\n") and answers.count(b"hello\n") == 1


@pytest.mark.once
def test_hooks_and_access_log_are_gunicorns(shared: Gunicorn) -> None:
    shared.get("/worker?logged")
    shared.says(r'127\.0\.0\.1 - - \[.*\] "GET /worker\?logged HTTP/1\.1" 200 \d+ "-" "python-requests')
    shared.says("before /worker")
    shared.says("after /worker: 200 OK")


@pytest.mark.once
def test_limits_are_gunicorns(shared: Gunicorn) -> None:
    assert shared.get(f"/{'x' * 100}").status_code == 414


@pytest.mark.once
def test_a_view_that_fails_or_exits_is_logged_and_costs_nobody_else(shared: Gunicorn) -> None:
    assert [shared.get(path).status_code for path in ("/fail", "/leave", "/")] == [500, 500, 200]
    shared.says("LookupError: a view that fails")
    shared.says("SystemExit: a view that exits")
    assert len(shared.workers()) == 1


@pytest.mark.once
def test_a_file_goes_to_a_slow_client_while_others_are_served(shared: Gunicorn) -> None:
    with shared.asked("/file") as slow:
        assert shared.get("/").text == "hello\n"
        assert rest(slow).endswith(bytes(LARGE) + b"\r\n0\r\n\r\n")


@pytest.mark.once
def test_a_stream_goes_out_as_it_comes(shared: Gunicorn) -> None:
    with shared.asked("/stream?stream") as sock:
        assert b"200 OK" in until(sock, b"first \r\n")
        shared.get("/open?stream")
        assert rest(sock) == b"4\r\nlast\r\n0\r\n\r\n"


@pytest.mark.once
def test_no_response_follows_one_that_the_view_has_cut_off_by_a_timeout(shared: Gunicorn) -> None:
    """The client would read the next response as the rest of this one."""
    with shared.asked("/cut", "") as sock:
        sock.sendall(b"GET / HTTP/1.1\r\nConnection: close\r\n\r\n")
        shared.says("cut off")
        got = b""
        with suppress(ConnectionResetError):  # the second request may be unread
            while part := sock.recv(1 << 20):
                got += part
    assert b"hello" not in got


@pytest.mark.once
def test_early_hints_come_before_the_answer(shared: Gunicorn) -> None:
    with shared.asked("/hints?hints") as sock:
        assert until(sock, b"\r\n\r\n").startswith(b"HTTP/1.1 103 Early Hints\r\nLink: </style.css>")
        shared.get("/open?hints")
        assert rest(sock).endswith(b"styled\n")


@pytest.mark.once
def test_a_client_that_leaves_costs_nobody_else(shared: Gunicorn) -> None:
    for path in ("/wait?gone", "/file", "/stream?gone"):
        with shared.asked(path):
            pass
    shared.get("/open?gone")
    assert shared.get("/").text == "hello\n"


@pytest.mark.slow
def test_the_log_is_opened_anew_on_usr1(tmp_path: Path) -> None:
    log = tmp_path / "access"
    with Gunicorn(tmp_path / "log", "-b", "127.0.0.1:0", "--access-logfile", str(log)) as gunicorn:
        gunicorn.get("/")
        log.rename(tmp_path / "access.1")
        gunicorn.signal(signal.SIGUSR1)
        gunicorn.await_(log.exists, "a new log")
        os.kill(gunicorn.workers()[0], signal.SIGUSR1)  # the master opens it first, and tells the workers then
        gunicorn.await_(lambda: gunicorn.get("/?new").ok and "/?new" in log.read_text(), "a line in it")


# ---- places


@pytest.mark.once
def test_beyond_worker_connections_clients_wait(tmp_path: Path) -> None:
    options = "-b 127.0.0.1:0 -b 127.0.0.1:0 --worker-connections 2 --keep-alive 30"
    with Gunicorn(tmp_path / "log", *options.split()) as gunicorn:
        first, second = gunicorn.says(r"http://[0-9.:]+")[:2]
        with requests.Session() as one, requests.Session() as other:
            assert one.get(first).ok and other.get(second).ok
            with gunicorn.asked("/") as third:
                third.settimeout(0.05)
                with pytest.raises(TimeoutError):
                    third.recv(1)
                one.close()
                third.settimeout(60)
                assert rest(third).endswith(b"hello\n")


@pytest.mark.once
def test_tls_and_unix_sockets_have_the_same_worker(tmp_path: Path) -> None:
    certificate().private_key_and_cert_chain_pem.write_to_path(tmp_path / "cert.pem")
    options = f"-b 127.0.0.1:0 -b unix:{tmp_path}/socket --certfile {tmp_path}/cert.pem --keyfile {tmp_path}/cert.pem"
    with Gunicorn(tmp_path / "log", *options.split()) as gunicorn:
        address, context = gunicorn.address, client_context(kind=ssl)
        with socket.create_connection(address) as silent, socket.create_connection(address) as rude:
            rude.sendall(b"GET / HTTP/1.0\r\n\r\n")  # neither holds up anybody
            with socket.socket(socket.AF_UNIX) as sock:
                sock.connect(f"{tmp_path}/socket")
                assert answer(context.wrap_socket(sock, server_hostname="localhost")).endswith(b" https\n")
            with socket.create_connection(address) as sock:
                assert answer(context.wrap_socket(sock, server_hostname="localhost")).endswith(b" 127.0.0.1 https\n")
            silent.close()


def answer(sock: socket.socket) -> bytes:
    with sock:
        sock.sendall(b"GET /worker HTTP/1.1\r\nConnection: close\r\n\r\n")
        return rest(sock)


@pytest.mark.slow
def test_an_http2_client_that_takes_no_more_holds_up_nobody_else(tmp_path: Path) -> None:
    pem = tmp_path / "cert.pem"
    certificate().private_key_and_cert_chain_pem.write_to_path(pem)
    options = f"-b 127.0.0.1:0 --http-protocols h2,h1 --certfile {pem} --keyfile {pem} --timeout 300"
    context = client_context(kind=ssl)
    context.set_alpn_protocols(["h2"])
    with Gunicorn(tmp_path / "log", *options.split()) as gunicorn:
        with socket.create_connection(gunicorn.address) as sock:
            with context.wrap_socket(sock, server_hostname="localhost") as slow:
                begin_http2(slow, "/file")  # larger than the window that it opens
                gunicorn.says("before /file")
                with socket.create_connection(gunicorn.address, timeout=10) as sock:
                    assert answer(client_context(kind=ssl).wrap_socket(sock, server_hostname="localhost"))
                assert slow.selected_alpn_protocol() == "h2"


def begin_http2(sock: socket.socket, path: str) -> None:
    connection = h2.connection.H2Connection()
    connection.initiate_connection()
    head = {":method": "GET", ":path": path, ":scheme": "https", ":authority": "localhost"}
    connection.send_headers(1, list(head.items()), end_stream=True)
    sock.sendall(connection.data_to_send())


# ---- the end


@pytest.mark.once
def test_a_request_under_way_is_answered_after_term(tmp_path: Path) -> None:
    with Gunicorn(tmp_path / "log", "-b", "127.0.0.1:0") as gunicorn, requests.Session() as idle:
        assert idle.get(gunicorn.url).headers["Connection"] == "keep-alive"
        with gunicorn.asked("/wait?term", head="") as asked:
            gunicorn.says("waits term")
            gunicorn.signal(signal.SIGTERM)
            gunicorn.says("Handling signal: term")
            last = idle.get(f"{gunicorn.url}/open?term")  # its connection is listened to for a while
            assert (last.text, last.headers["Connection"]) == ("open\n", "close")
            assert until(asked, b"waited\n")
        assert gunicorn.ends() == 0


@pytest.mark.once
def test_quit_cuts_requests_off(tmp_path: Path) -> None:
    with Gunicorn(tmp_path / "log", "-b", "127.0.0.1:0", "--workers", "2") as gunicorn:
        gunicorn.says("Worker up", 2)
        with gunicorn.asked("/wait?1") as first, gunicorn.asked("/wait?2") as second:
            gunicorn.says(r"waits \d", 2)
            gunicorn.signal(signal.SIGQUIT)
            assert (rest(first), rest(second)) == (b"", b"")
        assert gunicorn.ends() == 0
        assert len(gunicorn.said(r"waits no longer \d")) == 2


@pytest.mark.once
def test_max_requests_replaces_the_worker_and_loses_no_request(tmp_path: Path) -> None:
    options = "-b 127.0.0.1:0 --max-requests 3"
    with Gunicorn(tmp_path / "log", *options.split()) as gunicorn:
        pids = [gunicorn.get("/worker").text.split()[0] for _ in range(4)]
        assert len(set(pids)) == 2
        assert [int(pid) for pid in dict.fromkeys(pids)] == gunicorn.workers()


@pytest.mark.once
def test_what_the_worker_cannot_obey_is_refused(tmp_path: Path) -> None:
    with Gunicorn(tmp_path / "log", "-b", "127.0.0.1:0", "-k", "egg:dhaga#dhaga", "--threads", "4") as gunicorn:
        assert gunicorn.ends() == 1
        assert gunicorn.said("Error: threads = 4 does not apply") and not gunicorn.said("Traceback")
    with pytest.raises(RuntimeError, match="worker_connections must be one or more, not 0"):
        Worker.check_config(SimpleNamespace(threads=1, worker_connections=0), None)


@pytest.mark.slow
def test_an_idle_connection_ends_after_keep_alive(tmp_path: Path) -> None:
    with Gunicorn(tmp_path / "log", "-b", "127.0.0.1:0", "--keep-alive", "1") as gunicorn:
        with gunicorn.asked("/", head="") as used, socket.create_connection(gunicorn.address) as silent:
            assert rest(used).endswith(b"hello\n")
            assert rest(silent) == b""


@pytest.mark.slow
def test_a_request_that_does_not_end_is_cut_off_after_graceful_timeout(tmp_path: Path) -> None:
    with Gunicorn(tmp_path / "log", "-b", "127.0.0.1:0", "--graceful-timeout", "1") as gunicorn:
        with gunicorn.asked("/wait?1") as asked:
            gunicorn.says(r"waits \d")
            gunicorn.signal(signal.SIGHUP)
            assert rest(asked) == b""
        gunicorn.says("Cut off by the stop: GET /wait")
        gunicorn.says(r"waits no longer \d")
        assert gunicorn.get("/").ok


@pytest.mark.slow
def test_a_view_that_blocks_the_thread_is_struck_and_shown(tmp_path: Path) -> None:
    with Gunicorn(tmp_path / "log", "-b", "127.0.0.1:0", "--timeout", "3") as gunicorn:
        assert gunicorn.get("/block").status_code == 500
        gunicorn.says("aborted")
        gunicorn.says(r'"sleep"\)\(60\)')
        gunicorn.says("left")
        assert gunicorn.get("/").ok and len(gunicorn.workers()) == 2


@pytest.mark.slow
def test_a_worker_that_was_killed_is_replaced(tmp_path: Path) -> None:
    with Gunicorn(tmp_path / "log", "-b", "127.0.0.1:0") as gunicorn:
        os.kill(gunicorn.workers()[0], signal.SIGKILL)
        assert gunicorn.get("/").ok and len(gunicorn.workers()) == 2


@pytest.mark.slow
def test_a_worker_that_is_stopped_while_it_comes_up_leaves(tmp_path: Path) -> None:
    struck = """
def post_fork(server, worker):
    import os, signal
    from dhaga.monkey import _doors

    def patch(*packages):
        os.kill(os.getpid(), signal.SIGTERM)
        return patch_for_door(*packages)

    if worker.age == 1:
        patch_for_door, _doors.patch_for_door = _doors.patch_for_door, patch
"""
    with Gunicorn(tmp_path / "log", "-b", "127.0.0.1:0", hooks=struck) as gunicorn:
        gunicorn.says("left")
        assert gunicorn.get("/").ok


@pytest.mark.slow
def test_an_orphan_leaves(tmp_path: Path) -> None:
    with Gunicorn(tmp_path / "log", "-b", "127.0.0.1:0") as gunicorn:
        assert gunicorn.get("/").ok
        gunicorn.signal(signal.SIGKILL)
        gunicorn.says("Parent changed, shutting down")
        gunicorn.says("Worker exiting")


@pytest.mark.slow
@pytest.mark.parametrize("options", ["", "--preload", "--reuse-port"])
def test_a_reload_loses_no_request(tmp_path: Path, options: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as sock:
        place = "{}:{}".format(*sock.getsockname())
    with Gunicorn(tmp_path / "log", "-b", place, "--workers", "2", *options.split()) as gunicorn:
        gunicorn.says("Worker up", 2)
        with requests.Session() as kept:
            for number in range(150):
                assert requests.get(f"http://{place}").ok and kept.get(f"http://{place}").ok
                if number in (20, 70):
                    gunicorn.signal(signal.SIGHUP)
                    gunicorn.says("Worker up", 4 if number == 20 else 6)
        assert not gunicorn.said("Traceback")


@pytest.mark.slow
def test_a_changed_app_is_loaded_anew(tmp_path: Path) -> None:
    app = tmp_path / "changing.py"
    app.write_text("from tests.integrations.served import app\n")
    with Gunicorn(tmp_path / "log", "-b", "127.0.0.1:0", "--reload", app="changing:app") as gunicorn:
        assert gunicorn.get("/").ok

        def changed() -> list[str]:
            os.utime(app, ns=(0, app.stat().st_mtime_ns + 1_000_000_000))
            return gunicorn.said("Worker reloading")

        gunicorn.await_(changed, "a reload")  # it looks once a second, and may have begun after the first change
        gunicorn.says("Worker up", 2)
        assert gunicorn.get("/").ok


@pytest.mark.slow
def test_without_descriptors_clients_wait(tmp_path: Path) -> None:
    few = "import resource\ndef post_fork(server, worker): resource.setrlimit(resource.RLIMIT_NOFILE, (40, 40))"
    with Gunicorn(tmp_path / "log", "-b", "127.0.0.1:0", "--keep-alive", "30", hooks=few) as gunicorn:
        with ExitStack() as stack:
            for _ in range(50):
                stack.enter_context(gunicorn.asked("/", head=""))
            gunicorn.says("cannot accept more connections")
        assert gunicorn.get("/").ok
        assert len(gunicorn.said("cannot accept more connections")) == 1 and len(gunicorn.workers()) == 1


@pytest.mark.slow
def test_an_app_may_use_dhagas_before_the_fork(tmp_path: Path) -> None:
    (tmp_path / "early.py").write_text(
        "import dhaga\n"
        "from tests.integrations.served import app\n"
        "assert dhaga.spawn(int, '7').result() == 7\n"
        "dhaga.spawn(dhaga.sleep, 3600, daemon=True)\n"
    )
    with Gunicorn(tmp_path / "log", "-b", "127.0.0.1:0", "--preload", app="early:app") as gunicorn:
        assert gunicorn.get("/").ok
        gunicorn.signal(signal.SIGTERM)
        assert gunicorn.ends() == 0
        assert not gunicorn.said("Traceback")
