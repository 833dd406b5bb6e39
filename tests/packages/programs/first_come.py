"""300 threads ask again and again for one of 20 places, as packages hand them out: how many overtake one that waits?"""

import contextlib
import importlib.util
import itertools
import multiprocessing
import os
import queue
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

CLIENTS, PLACES, ROUNDS = 300, 20, 4


@contextlib.contextmanager
def sqlalchemy_pool():
    from sqlalchemy.pool import QueuePool

    class Connection:
        def rollback(self):
            pass

        close = commit = cursor = rollback

    pool = QueuePool(Connection, pool_size=PLACES, max_overflow=0, timeout=60)
    # Made beforehand: a pool that may grow looks for a connection first, and queues up only when it finds none.
    for connection in [pool.connect() for _ in range(PLACES)]:
        connection.close()
    yield lambda: contextlib.closing(pool.connect())


def queue_of_places(kind):
    places = kind(PLACES)
    for place in range(PLACES):
        places.put(place)

    @contextlib.contextmanager
    def take():
        place = places.get(timeout=60)
        try:
            yield
        finally:
            places.put(place)

    return take


@contextlib.contextmanager
def standard_queue():
    yield queue_of_places(queue.Queue)


@contextlib.contextmanager
def queue_from_source():
    """The standard queue as plain code, which waits by the conditions of ``threading``."""
    spec = importlib.util.spec_from_file_location("plain_queue", os.path.join(os.path.dirname(os.__file__), "queue.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert module.Queue is not queue.Queue
    yield queue_of_places(module.Queue)


@contextlib.contextmanager
def semaphore():
    places = threading.BoundedSemaphore(PLACES)
    yield lambda: places


@contextlib.contextmanager
def urllib3_pool():
    from urllib3 import HTTPConnectionPool

    pool = HTTPConnectionPool("localhost", maxsize=PLACES, block=True)

    @contextlib.contextmanager
    def take():
        connection = pool._get_conn(timeout=60)
        try:
            yield
        finally:
            pool._put_conn(connection)

    yield take


@contextlib.contextmanager
def redis_pool():
    import redis

    pool = redis.BlockingConnectionPool.from_url(os.environ["DHAGA_REDIS"], max_connections=PLACES, timeout=60)

    @contextlib.contextmanager
    def take():
        connection = pool.get_connection()
        try:
            yield
        finally:
            pool.release(connection)

    # Made beforehand: the place of a connection that is still being made is taken, and yet others are served meanwhile.
    for connection in [pool.get_connection() for _ in range(PLACES)]:
        pool.release(connection)
    yield take
    pool.disconnect()


@contextlib.contextmanager
def psycopg_pool():
    from psycopg_pool import ConnectionPool

    with ConnectionPool(os.environ["DHAGA_POSTGRES"], min_size=PLACES, max_size=PLACES, timeout=60) as pool:
        pool.wait(60)
        yield pool.connection


@contextlib.contextmanager
def psycopg2_pool():
    from psycopg2.pool import ThreadedConnectionPool

    pool, places = ThreadedConnectionPool(PLACES, PLACES, os.environ["DHAGA_POSTGRES"]), threading.Semaphore(PLACES)

    @contextlib.contextmanager
    def take():
        with places:
            connection = pool.getconn()
            try:
                yield
            finally:
                pool.putconn(connection)

    yield take
    pool.closeall()


@contextlib.contextmanager
def multiprocessing_queue():
    """Its places are those for which ``put`` waits."""
    places = multiprocessing.Queue(PLACES)

    @contextlib.contextmanager
    def take():
        places.put(None)
        try:
            yield
        finally:
            places.get(timeout=60)

    yield take


served, numbers = [], itertools.count()
asking = threading.Barrier(CLIENTS)


def ask(take):
    asking.wait()
    for _ in range(ROUNDS):
        number = next(numbers)
        with take():
            served.append(number)
            time.sleep(0.001)


def ask_executor(executor):
    asking.wait()
    for _ in range(ROUNDS):
        executor.submit(lambda number: (served.append(number), time.sleep(0.001)), next(numbers)).result()


def run(target, *args):
    threads = [threading.Thread(target=target, args=args) for _ in range(CLIENTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


if sys.argv[1] == "executor":
    with ThreadPoolExecutor(PLACES) as executor:
        run(ask_executor, executor)
else:
    with globals()[sys.argv[1]]() as take:
        run(ask, take)

assert sorted(served) == list(range(CLIENTS * ROUNDS))
print("overtaken", max(sum(later > number for later in served[:at]) for at, number in enumerate(served)))
