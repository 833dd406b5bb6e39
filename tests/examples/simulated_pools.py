"""HTTP clients against a site whose answers, connections and host fail.

Each call gets its own answer or a clear error, in time; limits hold, and nothing stays open.
"""

from __future__ import annotations

import contextlib
import itertools
import random
import time
from collections.abc import Callable, Iterator
from typing import Any

from requests.adapters import HTTPAdapter
from requests.exceptions import RequestException
from tornado.httpclient import HTTPError
from urllib3.util import Retry

import dhaga
from dhaga.http import HTTPClient, Session
from dhaga.simulation import current
from tests.examples.simulated_site import Site, body_of

WORKERS, CALLS, LIMIT = 5, 4, 2

LONGEST = 6.0
"""Seconds that a call may take in all."""

WAITING = 2.0
"""Seconds that the clients wait for one step, and the site before an answer."""

OVER = 100.0
"""Seconds after which no fault is left, and each idle connection is too old."""

URL = "http://site/"

BETWEEN = [["main"], ["site"]]
FAULTS: dict[str, Any] = {
    "hosts": {"site": ""},
    "faults": [
        {"kind": "partition", "between": BETWEEN, "at": [0, 10], "seconds": [0.5, 8]},
        {"kind": "one-way", "between": BETWEEN[::-1], "at": [0, 10], "seconds": [0.5, 8]},
        {"kind": "reset", "host": "main", "at": [0, 10], "share": 0.5},
        {"kind": "half-open", "host": "site", "at": [0, 10], "share": 0.5},
        {"kind": "stall", "host": "main", "at": [0, 10], "seconds": [0.5, 8]},
        {"kind": "kill", "host": "site", "at": [0, 10], "seconds": [0.1, 4]},
    ],
}

Fetch = Callable[[int], object]
"""Makes the call of a number, and checks its answer."""


def call(fetch: Fetch, number: int) -> None:
    began_at = time.monotonic()
    try:
        with dhaga.Timeout(LONGEST):
            fetch(number)
    except (RequestException, HTTPError, OSError):
        pass
    finally:
        taken = time.monotonic() - began_at
        assert taken < LONGEST + 0.001, f"call {number} has taken {taken:g} s"


def work(fetch: Fetch, numbers: Iterator[int]) -> None:
    """Make some calls, and cancel some of them."""
    for number in itertools.islice(numbers, CALLS):
        calling = dhaga.spawn(call, fetch, number)
        if random.random() < 0.2:
            dhaga.sleep(random.uniform(0, WAITING))
            calling.cancel()
        with contextlib.suppress(dhaga.Cancelled):
            calling.result()
        dhaga.sleep(random.uniform(0, WAITING))


def open_sockets() -> int:
    """Return the number of sockets that the client has open."""
    network = current().network
    ends = [end for end in network.ends.values() if end.host is network.hosts.first]
    return sum(sock.fileno() >= 0 for end in ends for sock in end.objects)


def run(fetch: Fetch, limit: int) -> None:
    """Make calls by several workers while faults happen, and then some that must succeed."""
    site, host, numbers = Site(WAITING), current().network.hosts.find("site"), itertools.count(1)
    host.start(site.serve)
    current().always(lambda: open_sockets() <= limit)
    with dhaga.Scope() as scope:
        for _ in range(WORKERS):
            scope.spawn(work, fetch, numbers)
    dhaga.sleep(OVER)
    site.calm = True
    for number in itertools.islice(numbers, LIMIT + 1):
        fetch(number)
    host.kill()


def check(number: int, answer: bytes) -> None:
    assert answer == body_of(number), f"request {number} got {answer[:50]!r}"


def through_client() -> None:
    """Use an ``HTTPClient``, which makes a connection for each request."""
    client = HTTPClient(max_clients=LIMIT)

    def fetch(number: int) -> None:
        posted = {"method": "POST", "body": body_of(number)} if random.random() < 0.3 else {}
        timeouts = {"connect_timeout": WAITING, "request_timeout": 2 * WAITING}
        check(number, client.fetch(f"{URL}{number}", **posted, **timeouts).body)

    run(fetch, LIMIT)
    assert not open_sockets() and not client.fetches
    client.close()


def through_session() -> None:
    """Use a ``Session``, which keeps connections in a pool, bounded or not."""
    bound = random.choice((LIMIT, 0))
    retry = Retry(total=2, backoff_factor=0.1, status_forcelist=[503])
    adapter = HTTPAdapter(pool_maxsize=bound, pool_block=bool(bound), max_retries=retry)
    session = Session()
    session.mount(URL, adapter)

    def fetch(number: int) -> None:
        posted = {"data": body_of(number)} if random.random() < 0.3 else {}
        stream = random.random() < 0.3
        method = "POST" if posted else "GET"
        with session.request(method, f"{URL}{number}", timeout=WAITING, stream=stream, **posted) as answer:
            answer.raise_for_status()
            if not stream or random.random() < 0.5:
                check(number, answer.content)

    run(fetch, bound or WORKERS)
    assert open_sockets() <= (bound or 1), "idle connections are left"
    pool: Any = adapter.poolmanager.connection_from_url(URL).pool
    assert not bound or pool.qsize() == bound
    session.close()
    assert not open_sockets()
