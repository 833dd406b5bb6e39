"""Connection pools whose callers are struck at random events by short deadlines: no answer is another request's,
and no place of the pool is lost.
"""

from __future__ import annotations

import os

import pytest

from tests._kernel.test_preemption_strikes import needs_events
from tests.kit.scripts import run

STRIKES = 2000

PROGRAM = """
import http.server, os, random, sys, threading, time
import dhaga
from dhaga._kernel.process.preemption_events import Events

CALLERS, BOUND = 8, 0.005

def redis():
    import redis
    pool = redis.ConnectionPool.from_url(os.environ["REDIS_URL"], max_connections=CALLERS)
    client = redis.Redis(connection_pool=pool)
    return lambda key: client.echo(key).decode()

def psycopg2():
    from psycopg2.pool import ThreadedConnectionPool
    pool = ThreadedConnectionPool(0, CALLERS, os.environ["DATABASE_URL"])
    def ask(key):
        connection = pool.getconn()
        try:
            with connection.cursor() as cursor:
                cursor.execute("select %s", (key,))
                return cursor.fetchone()[0]
        finally:
            # It waits for the pool's lock: there the deadline would come at the park.
            with dhaga.shield():
                pool.putconn(connection)
    return ask

class Echo(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Length", str(len(self.path)))
        self.end_headers()
        self.wfile.write(self.path.encode())
    def log_message(self, *_): pass

def urllib3():
    import urllib3
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Echo)
    server.handle_error = lambda *_: None  # a client that was struck
    threading.Thread(target=server.serve_forever, daemon=True).start()
    pool = urllib3.HTTPConnectionPool("127.0.0.1", server.server_port, maxsize=CALLERS, block=True)
    return lambda key: pool.request("GET", f"/{key}", retries=False).data.decode()[1:]

ask = globals()[sys.argv[1]]()
draw = random.Random(1).random
counts = dict.fromkeys(("right", "struck", "wrong"), 0)

def calls(number):
    request = 0
    while counts["struck"] < STRIKES:
        request += 1
        key = f"{number}-{request}"
        try:
            # Each fourth caller has no deadline: it would get the answers that others have left.
            with dhaga.Timeout(BOUND * random.random() if number % 4 else None):
                answer = ask(key)
            counts["right" if answer == key else "wrong"] += 1
        except TimeoutError:
            counts["struck"] += 1
        except Exception:
            pass  # a connection that was closed by a strike

events = Events()
events.arm_everywhere(lambda: draw() < 0.01)
callers = [dhaga.spawn(calls, number) for number in range(CALLERS)]
for each in callers:
    each.join()
events.arm_everywhere(None)
# As many as have a place ask at once: who finds none raises, or waits for ever.
print(counts["right"] > 0, counts["wrong"])
meet = threading.Barrier(CALLERS)
afterwards = [dhaga.spawn(lambda: (meet.wait(), ask("last"))[1]) for _ in range(CALLERS)]
print([each.result() for each in afterwards] == ["last"] * CALLERS)
sys.stdout.flush()
os._exit(0)
"""


@needs_events
@pytest.mark.slow
@pytest.mark.once
@pytest.mark.process
@pytest.mark.parametrize("client", ["redis", "psycopg2", "urllib3"])
def test_no_answer_is_another_requests_and_no_place_is_lost_after_strikes(client: str) -> None:
    pytest.importorskip(client)
    outcome = run(
        f"import sys; sys.argv[1:] = [{client!r}]; import dhaga.monkey; dhaga.monkey.patch()\nSTRIKES = {STRIKES}\n"
        f"{PROGRAM}",
        DHAGA_PREEMPT="0.01",
        REDIS_URL=os.environ.get("DHAGA_REDIS", "redis://127.0.0.1:6379/0"),
        DATABASE_URL=os.environ.get("DHAGA_POSTGRES", "postgresql://postgres@127.0.0.1:5432/postgres"),
    )
    assert outcome.status == 0, outcome.err
    assert outcome.lines == ["True 0", "True"]
