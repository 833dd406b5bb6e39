"""``python -m dhaga serve``: real processes, apps, signals; and what its command line makes of its words."""

from __future__ import annotations

import contextlib
import http.client
import os
import pathlib
import pty
import re
import select
import signal
import socket
import ssl
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from typing import Any

import pytest

from dhaga._cli import serve
from tests.kit.certificates import NAME, authority, certificate
from tests.kit.prefork_programs import Load, Running
from tests.kit.scripts import PATIENCE, ROOT, Program

APP = """
import threading
import dhaga

def app(environ, start_response):
    if environ["PATH_INFO"] == "/slow":
        print("under way", flush=True)
        dhaga.sleep(0.3)
    if environ["PATH_INFO"] == "/thread":
        return answer(start_response, threading.current_thread().name)
    return answer(start_response, "{version} " + environ["wsgi.url_scheme"])

def answer(start_response, text):
    start_response("200 OK", [("Content-Length", str(len(text)))])
    return [text.encode()]

class sub:
    @staticmethod
    def make():
        return app

word = "no app"
"""


def start(directory: pathlib.Path, *options: str, app: str = "served:app", version: object = 1) -> Running:
    write(directory, version)
    return Running(directory, "-m", "dhaga", "serve", app, *options)


def write(directory: pathlib.Path, version: object) -> None:
    (directory / "served.py").write_text(APP.replace("{version}", str(version)))


def serve_locally(directory: pathlib.Path, *options: str, **more: Any) -> Running:
    return start(directory, "--bind", "127.0.0.1:0", *options, **more)


def get(running: Running, path: str = "/") -> bytes:
    connection = http.client.HTTPConnection(running.address, timeout=PATIENCE)
    try:
        connection.request("GET", path)
        return connection.getresponse().read()
    finally:
        connection.close()


class Kept:
    """Connections, one for each thread that asks, that are kept for as long as the server lets them."""

    def __init__(self, running: Running) -> None:
        self.running = running
        self.connections: dict[int, http.client.HTTPConnection] = {}

    def ask(self) -> bytes:
        new = http.client.HTTPConnection(self.running.address, timeout=PATIENCE)
        connection = self.connections.setdefault(threading.get_ident(), new)
        connection.request("GET", "/")
        return connection.getresponse().read()

    def close(self) -> None:
        for connection in self.connections.values():
            connection.close()


# ---- serving


@pytest.mark.once
def test_a_reload_under_load_loses_no_request(tmp_path: pathlib.Path) -> None:
    with serve_locally(tmp_path, "--workers", "2", version=0) as running:
        running.begin(2)
        kept = Kept(running)
        loads = Load(lambda: get(running)), Load(kept.ask), Load(lambda: get(running, "/slow"), threads=8)
        with contextlib.closing(kept), loads[0], loads[1], loads[2]:
            for version in (1, 2):
                write(tmp_path, version)
                running.signal(signal.SIGHUP)
                running.serving(2)
                running.wait_for("worker (.*) ended with status 0", 2)
                assert get(running) == b"%d http" % version
        for load in loads:
            assert load.answers and not load.errors
            assert set(load.answers) <= {b"0 http", b"1 http", b"2 http"}


@pytest.mark.once
def test_sigterm_drains_a_request_in_flight(tmp_path: pathlib.Path) -> None:
    with serve_locally(tmp_path) as running:
        running.begin()
        host, _, port = running.address.partition(":")
        with socket.create_connection((host, int(port)), timeout=PATIENCE) as sock, sock.makefile("rb") as file:
            sock.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            assert file.readline() == b"HTTP/1.1 200 OK\r\n"
            while file.readline() != b"\r\n":
                pass
            assert file.read(6) == b"1 http"
            sock.sendall(b"GET /slow HTTP/1.1\r\nHost: x\r\n\r\nGET / HTTP/1.1\r\nHost: x\r\n\r\n")
            assert running.process.stdout is not None
            assert running.process.stdout.readline() == b"under way\n"
            running.signal(signal.SIGTERM)
            assert file.read().count(b"1 http") >= 1
        assert running.end() == 0


@pytest.mark.slow
def test_the_silence_of_a_kept_connection_does_not_hold_up_the_end(tmp_path: pathlib.Path) -> None:
    with serve_locally(tmp_path, "--graceful-timeout", "1000") as running:
        running.begin()
        connection = http.client.HTTPConnection(running.address, timeout=PATIENCE)
        connection.request("GET", "/")
        connection.getresponse().read()
        running.signal(signal.SIGTERM)
        assert running.end() == 0
        connection.close()


@pytest.mark.once
def test_several_addresses_factories_logs_and_threads(tmp_path: pathlib.Path) -> None:
    with start(
        tmp_path,
        *("--bind", "127.0.0.1:0", "--bind", "unix:socket", "--threads", "2", "--max-connections", "1"),
        *("--access-log", "access.log", "--no-patch"),  # patched, a connection's name is its dhaga's
        app="served:sub.make()",
    ) as running:
        running.begin()
        names = set()
        with running.client() as first, running.client() as second:
            for sock in (first, second):
                sock.sendall(b"GET /thread HTTP/1.1\r\nHost: x\r\n\r\n")
            for sock in (first, second):
                names.add(sock.recv(1000).rpartition(b"\r\n")[2])
        assert names == {b"MainThread", b"thread-2"}
        with socket.socket(socket.AF_UNIX) as sock:
            sock.settimeout(PATIENCE)
            sock.connect(str(tmp_path / "socket"))
            sock.sendall(b"GET /by-path HTTP/1.0\r\n\r\n")
            with sock.makefile("rb") as file:
                assert file.read().endswith(b"1 http")
        running.signal(signal.SIGTERM)
        assert running.end() == 0
    assert not (tmp_path / "socket").exists()
    lines = (tmp_path / "access.log").read_text().splitlines()
    assert sum('"GET /thread HTTP/1.1" 200' in line for line in lines) == 2
    assert sum('"GET /by-path HTTP/1.0" 200' in line for line in lines) == 1


@pytest.mark.once
def test_https_is_served_with_a_certificate_that_a_reload_reads_anew(tmp_path: pathlib.Path) -> None:
    def replace(*names: str) -> None:
        certificate(*names).private_key_and_cert_chain_pem.write_to_path(str(tmp_path / "pem"))

    def names() -> set[str]:
        context = ssl.create_default_context()
        authority().configure_trust(context)
        host, _, port = running.address.partition(":")
        sock = socket.create_connection((host, int(port)), timeout=PATIENCE)
        with context.wrap_socket(sock, server_hostname=NAME) as tls:
            tls.sendall(b"GET / HTTP/1.0\r\n\r\n")
            with tls.makefile("rb") as file:
                assert file.read().endswith(b"1 https")
            return {value for _, value in tls.getpeercert()["subjectAltName"]}

    replace()
    with serve_locally(tmp_path, "--certfile", "pem") as running:
        running.begin()
        assert names() == {NAME, "127.0.0.1"}
        replace(NAME)
        running.signal(signal.SIGHUP)
        running.serving()
        running.wait_for("worker (.*) ended with status 0")
        assert names() == {NAME}


@pytest.mark.slow
def test_an_inherited_socket_is_served(tmp_path: pathlib.Path) -> None:
    write(tmp_path, 1)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        script = f"import os, sys; os.dup2({listener.fileno()}, 3); os.execv(sys.executable, sys.argv[1:])"
        os.set_inheritable(listener.fileno(), True)
        process = subprocess.Popen(
            [sys.executable, "-c", script, sys.executable, "-m", "dhaga", "serve", "served:app", "--bind", "fd://3"],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            pass_fds=[listener.fileno()],
            stderr=subprocess.DEVNULL,
        )
        connection = http.client.HTTPConnection(*listener.getsockname(), timeout=PATIENCE)
        connection.request("GET", "/", headers={"Connection": "close"})
        assert connection.getresponse().read() == b"1 http"
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) == 0


@pytest.mark.once
@pytest.mark.parametrize(("colours", "status"), [("", "\x1b[33m404\x1b[0m"), ("1", "404")])
def test_in_a_terminal_the_url_the_way_out_and_coloured_statuses_are_shown(
    tmp_path: pathlib.Path, colours: str, status: str
) -> None:
    (tmp_path / "served.py").write_text("def app(environ, start):\n    start('404 Not Found', [])\n    return []\n")
    end, its = pty.openpty()
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TERM": "xterm", "NO_COLOR": colours}
    command = [sys.executable, "-m", "dhaga", "serve", "served:app", "--bind", "127.0.0.1:0", "--access-log"]
    with subprocess.Popen(command, cwd=tmp_path, env=environment, stdin=its, stdout=its, stderr=its) as process:
        try:
            shown = read_until(end, "serves")
            (url,) = re.findall(r"listens at (http://127\.0\.0\.1:[0-9]+) \(Ctrl\+C ends it\)", shown)
            with pytest.raises(urllib.error.HTTPError) as found:
                urllib.request.urlopen(f"{url}/%22%20500%20", timeout=PATIENCE)
            found.value.close()
            assert f'" {status} - "' in read_until(end, "Python-urllib")
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(PATIENCE)
            os.close(end)
            os.close(its)


def read_until(terminal: int, text: str) -> str:
    """Read what is written to a terminal until a text comes."""
    shown = ""
    while text not in shown:
        assert select.select([terminal], [], [], PATIENCE)[0], shown
        shown += os.read(terminal, 65536).decode(errors="replace")
    return shown


# ---- what cannot be served


@pytest.mark.once
def test_an_app_that_cannot_be_found_is_told_in_a_line(tmp_path: pathlib.Path) -> None:
    with serve_locally(tmp_path, "--workers", "2", app="no_such_module:app") as running:
        assert running.end() == 1
        first, line, last = running.log
        assert first.endswith("starts")
        assert line.startswith(f"python -m dhaga serve: there is no module 'no_such_module' in {tmp_path}")
        assert "gives up" in last


@pytest.mark.parametrize(
    ("app", "error"),
    [
        ("no_such_module:app", "there is no module 'no_such_module' in .*tests"),
        ("tests.kit.scripts.app:app", "there is no module 'tests.kit.scripts.app' in "),
        ("tests.kit.scripts:nothing", "'tests.kit.scripts:nothing': .* has no 'nothing'"),
        ("tests.kit.scripts:ROOT.nothing", "has no 'nothing'$"),
        ("tests.kit.scripts:PATEINCE", r"has no 'PATEINCE': did you mean PATIENCE\?"),
        (f"{__file__}:app", r"test_serve.py' is a file: write the name of its module, such as test_serve:app$"),
        ("tests.kit.scripts:PATIENCE", "'tests.kit.scripts:PATIENCE' is [0-9]+, not a WSGI app"),
    ],
)
def test_what_names_no_app_is_refused(app: str, error: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(pathlib.Path(__file__).parent)
    with pytest.raises(SystemExit, match=error):
        serve.load(app)


@pytest.mark.parametrize(
    ("options", "error"),
    [
        (("--access-log", "/no/such/log"), "no access log: .*'/no/such/log'"),
        (("--certfile", "/no/cert"), "no certificate with its key in /no/cert: "),
        (("--certfile", __file__, "--keyfile", "/no/key"), f"no certificate with its key in {__file__} and /no/key: "),
    ],
)
def test_a_file_that_cannot_be_used_is_told_in_a_line(options: tuple[str, ...], error: str) -> None:
    with pytest.raises(SystemExit, match=error):
        serve.set_up(serve.command_line().parse_args(["tests._cli.test_serve:factory()", *options]))


def test_an_app_is_an_attribute_or_what_a_factory_makes() -> None:
    assert serve.load("tests.kit.scripts:Program.outcome") is Program.outcome
    assert serve.load("tests._cli.test_serve:factory()") is not serve.load("tests._cli.test_serve:factory")


def factory() -> Any:
    return lambda environ, start_response: []


@pytest.mark.slow
def test_what_fails_within_the_module_shows_as_it_is(tmp_path: pathlib.Path) -> None:
    running = serve_locally(tmp_path, app="other:app")
    (tmp_path / "other.py").write_text("import no_such_module")
    with running:
        assert running.end() == 1
        assert "ModuleNotFoundError: No module named 'no_such_module'" in running.log


def test_an_address_in_use_is_told_in_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serve, "log_to_stderr", lambda: None)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        with pytest.raises(SystemExit, match=r"python -m dhaga serve: .* in use"):
            serve.main(["served:app", "--no-patch", "--bind", f"127.0.0.1:{listener.getsockname()[1]}"])


# ---- the command line


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("127.0.0.1:80", ("127.0.0.1", 80)),
        (":8000", ("", 8000)),
        ("[::1]:8000", ("::1", 8000)),
        ("example.org:0", ("example.org", 0)),
        ("unix:/run/app", "/run/app"),
        ("unix:app", "app"),
        ("unix:///run/app", "/run/app"),
    ],
)
def test_an_address_on_the_command_line(text: str, meant: object) -> None:
    assert serve.command_line().parse_args(["m:a", "--bind", text]).bind == [meant]


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["m:a", "--bind", "localhost"], "'localhost' is not an address"),
        (["m:a", "--bind", "::1:80"], "'::1:80' is not an address"),
        (["m:a", "--bind", "host:99999"], "is not an address"),
        (["m:a", "--bind", "unix:"], "'unix:' is not an address"),
        (["m:a", "--max-head", "none"], "head must be a number"),
        (["m:a", "--bind", "unix://"], "'unix://' is not an address"),
        (["m:a", "--bind", "fd://x"], "fd://x is not a socket"),
        (["m:a", "--bind", "fd://999"], "fd://999 is not a socket"),
        (["m:a", "--workers", "0"], "'0' is not a whole number from 1"),
        (["m:a", "--graceful-timeout", "-1"], "'-1' is not a number of seconds"),
        (["m:a", "--idle-timeout", "soon"], "'soon' is not a number of seconds"),
        (["m:a", "--keyfile", "key"], "--keyfile needs --certfile"),
        (["m"], "'m' does not name an app: write MODULE:APP"),
        (["m:a", "--port", "80"], "there is no option --port: did you mean --bind?"),
        (["m:a", "-w", "4"], "there is no option -w: did you mean --workers?"),
        (["m:a", "--root-path", "/a"], "there is no option --root-path\n"),
        ([], "MODULE:APP"),
    ],
)
def test_a_command_line_that_cannot_be_meant_is_refused(
    words: list[str], error: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        serve.main(words)
    assert error in capsys.readouterr().err


def test_options_of_other_servers_have_counterparts() -> None:
    assert set(serve.FOREIGN.values()) <= set(serve.command_line()._option_string_actions)


def test_limits_are_options_with_the_defaults_of_the_server() -> None:
    parse = serve.command_line().parse_args
    options = parse(["m:a"])
    limits = {field.name: getattr(options, field.name) for field in serve.dataclasses.fields(serve.Limits)}
    assert serve.Limits(**limits) == serve.Limits()
    changed = parse(["m:a", "--idle-timeout", "0.5", "--max-body", "1000", "--write-timeout", "none"])
    assert (changed.idle_timeout, changed.body, changed.write_timeout) == (0.5, 1000, None)


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&- >&- 2>&-"])
def test_it_serves_with_closed_standard_descriptors(tmp_path: pathlib.Path, closed: str) -> None:
    write(tmp_path, 1)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        serving = [sys.executable, "-m", "dhaga", "serve", "served:app", "--bind", f"fd://{listener.fileno()}"]
        process = subprocess.Popen(
            ["/bin/sh", "-c", f'exec "$@" {closed}', "sh", *serving],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            pass_fds=[listener.fileno()],
        )
        host, port = listener.getsockname()
        with process, contextlib.closing(http.client.HTTPConnection(host, port, timeout=PATIENCE)) as client:
            try:
                client.request("GET", "/")
                assert client.getresponse().read() == b"1 http"
            finally:
                process.terminate()
                process.wait(PATIENCE)
