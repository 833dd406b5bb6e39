"""Programs as newcomers write them, each right at its first run by the documented command.

Programs behind a server or a broker, or in a notebook, are in tests/packages/test_doors.py and tests/integrations.
"""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

pytestmark = [pytest.mark.once, pytest.mark.process]

SECONDS = 90


def lines_of(program: str, folder: Path, *command: str) -> list[str]:
    """Run a program from a file; it must end without an error. Returns: the lines that it prints."""
    path = folder / "program.py"
    path.write_text(textwrap.dedent(program))
    done = subprocess.run(
        [sys.executable, *command, path], cwd=folder, capture_output=True, text=True, timeout=SECONDS, check=False
    )
    assert (done.returncode, done.stderr) == (0, ""), done
    return done.stdout.splitlines()


def test_a_threaded_downloader_with_a_pool_logging_and_a_server(tmp_path: Path) -> None:
    program = """
    import logging, threading
    from concurrent.futures import ThreadPoolExecutor
    from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
    import requests

    logging.basicConfig(filename="log.txt", level=logging.INFO, format="%(threadName)s %(message)s")
    together = threading.Barrier(60)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            together.wait(60)
            self.send_response(200)
            self.end_headers()
            self.wfile.write(self.path.encode())

        def log_message(self, *_):
            pass

    class Server(ThreadingHTTPServer):
        request_queue_size = 100

    server = Server(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()

    def fetch(number):
        answer = requests.get(f"http://127.0.0.1:{server.server_port}/{number}", timeout=60)
        logging.info("got %s", number)
        return answer.text

    with ThreadPoolExecutor(60) as pool:
        print(sorted(pool.map(fetch, range(60))) == sorted(f"/{n}" for n in range(60)))
    server.shutdown()
    print(len(open("log.txt").readlines()) >= 60)
    """
    assert lines_of(program, tmp_path, "-m", "dhaga") == ["True", "True"]


def test_a_chat_server_in_a_scope(tmp_path: Path) -> None:
    program = """
    import dhaga
    from dhaga.servers import TCPServer
    from dhaga.socket import create_connection
    from dhaga.threading import Barrier

    inside = Barrier(20, lambda: [dhaga.sleep(0.01) for _ in range(500) if len(rooms) < 20])
    rooms = set()

    def chat(sock, peer):
        rooms.add(sock)
        try:
            with sock.makefile("rb") as lines:
                for line in lines:
                    for other in list(rooms):
                        other.sendall(line)
        finally:
            rooms.discard(sock)

    def client(number):
        with create_connection(server.address) as sock, sock.makefile("rw") as lines:
            inside.wait(30)
            for turn in range(5):
                lines.write(f"{number} {turn}\\n")
                lines.flush()
            return sorted(lines.readline() for _ in range(100))

    with TCPServer(chat, ("127.0.0.1", 0)) as server:
        with dhaga.Scope() as scope:
            clients = [scope.spawn(client, number) for number in range(20)]
        print(all(each.result() == clients[0].result() for each in clients), len(set(clients[0].result())))
    """
    assert lines_of(program, tmp_path) == ["True 100"]


def test_a_client_with_a_rate_limit(tmp_path: Path) -> None:
    program = """
    import time
    import dhaga

    limiter, times = dhaga.RateLimiter(200), []

    def call(number):
        with limiter:
            times.append(time.monotonic())

    began = time.monotonic()
    with dhaga.Scope() as scope:
        for number in range(100):
            scope.spawn(call, number)
    print(len(times), times[-1] - began > 0.45)
    """
    assert lines_of(program, tmp_path) == ["100 True"]


def test_a_pool_of_psycopg2_connections_between_threads(tmp_path: Path) -> None:
    psycopg2 = pytest.importorskip("psycopg2")
    dsn = os.environ.get("DHAGA_POSTGRES", "postgresql://postgres@127.0.0.1:5432/postgres")
    try:
        psycopg2.connect(dsn).close()
    except psycopg2.OperationalError:
        pytest.skip("no PostgreSQL at DHAGA_POSTGRES")
    program = f"""
    import queue, threading
    import psycopg2.pool

    pool = psycopg2.pool.ThreadedConnectionPool(10, 10, {dsn!r})
    gate, jobs, done = threading.Semaphore(10), queue.Queue(50), []

    def consume():
        while (number := jobs.get()) is not None:
            with gate:
                connection = pool.getconn()
                try:
                    with connection, connection.cursor() as cursor:
                        cursor.execute("SELECT pg_sleep(0.01), %s", (number,))
                        done.append(cursor.fetchone()[1])
                finally:
                    pool.putconn(connection)

    workers = [threading.Thread(target=consume) for _ in range(50)]
    for worker in workers:
        worker.start()
    for number in [*range(200), *[None] * 50]:
        jobs.put(number)
    for worker in workers:
        worker.join()
    pool.closeall()
    print(sorted(done) == list(range(200)))
    """
    assert lines_of(program, tmp_path, "-m", "dhaga") == ["True"]


@pytest.mark.parametrize("command", [(), ("-m", "dhaga")], ids=["unpatched", "patched"])
def test_progress_bars(command: tuple[str, ...], tmp_path: Path) -> None:
    program = """
    import io
    import dhaga
    from dhaga.pool import Pool
    from rich.console import Console
    from rich.progress import Progress
    from tqdm import tqdm

    out = io.StringIO()
    with tqdm(total=50, file=out) as bar, Progress(console=Console(file=out)) as progress, Pool(2, 10) as pool:
        task = progress.add_task("work", total=50)

        def work(number):
            dhaga.sleep(0.001)
            bar.update()
            progress.advance(task)
            return number

        print(sum(pool.map(work, range(50))), bar.n, progress.tasks[0].completed)
    """
    assert lines_of(program, tmp_path, *command) == ["1225 50 50"]


def test_children_event_loops_and_an_alarm_in_one_program(tmp_path: Path) -> None:
    program = """
    import asyncio, signal, subprocess, sys, threading
    from concurrent.futures import ThreadPoolExecutor

    def child(number):
        return subprocess.run([sys.executable, "-S", "-c", f"print({number})"], capture_output=True, text=True).stdout

    async def soon(number):
        await asyncio.sleep(0.01)
        return number

    rung = threading.Event()
    signal.signal(signal.SIGALRM, lambda *_: rung.set())
    signal.setitimer(signal.ITIMER_REAL, 0.05)
    with ThreadPoolExecutor(20) as pool:
        print(sum(map(int, pool.map(child, range(20)))))
        print(sum(pool.map(lambda number: asyncio.run(soon(number)), range(20))))
    print(rung.wait(60))
    """
    assert lines_of(program, tmp_path, "-m", "dhaga") == ["190", "190", "True"]


def test_a_process_pool_of_each_start_method(tmp_path: Path) -> None:
    program = """
    import multiprocessing
    from concurrent.futures import ProcessPoolExecutor

    if __name__ == "__main__":
        for method in multiprocessing.get_all_start_methods():
            with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context(method)) as pool:
                print(method, list(pool.map(abs, range(-3, 0))))
    """
    lines = lines_of(program, tmp_path, "-m", "dhaga")
    assert sorted(lines) == [f"{method} [3, 2, 1]" for method in ("fork", "forkserver", "spawn")]
