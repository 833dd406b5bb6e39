"""SQLAlchemy: 200 threads ask for the 20 connections of a QueuePool; those for whom there is none wait in its queue."""

import os
import sys
import threading
import time
from typing import Any

import sqlalchemy
import sqlalchemy.exc
import sqlalchemy.orm

COUNT, CONNECTIONS = 200, 20
dialect = sys.argv[1]
url, sleep = {
    "pymysql": (sqlalchemy.make_url(os.environ.get("DHAGA_MARIADB", "mysql://")), "sleep"),
    "psycopg2": (sqlalchemy.make_url(os.environ.get("DHAGA_POSTGRES", "postgresql://")), "pg_sleep"),
    "psycopg": (sqlalchemy.make_url(os.environ.get("DHAGA_POSTGRES", "postgresql://")), "pg_sleep"),
}[dialect]
url = url.set(drivername=f"{url.get_backend_name()}+{dialect}")
options = {"connect_args": {"ssl_disabled": True}} if dialect == "pymysql" else {}
engine = sqlalchemy.create_engine(url, pool_size=CONNECTIONS - 5, max_overflow=5, pool_timeout=20, **options)
pool: Any = engine.pool
sessions = sqlalchemy.orm.scoped_session(sqlalchemy.orm.sessionmaker(engine))
answers, asking, peaks = {}, [], []
asked = threading.Barrier(COUNT)


def work(n):
    asked.wait()
    asking.append(n)
    session = sessions()
    answers[n] = session.execute(sqlalchemy.text(f"select :n + :n, {sleep}(0.05)"), {"n": n}).scalar()
    peaks.append((len(asking), pool.checkedout()))
    asking.remove(n)
    assert sessions() is session
    sessions.remove()


threads = [threading.Thread(target=work, args=(n,)) for n in range(COUNT)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert answers == {n: n + n for n in range(COUNT)}
assert max(out for _, out in peaks) == CONNECTIONS and pool.checkedout() == 0
held = [engine.connect() for _ in range(CONNECTIONS)]
narrow = pool
narrow._timeout = 0.05
start = time.monotonic()
try:
    engine.connect()
except sqlalchemy.exc.TimeoutError:
    assert 0.04 < time.monotonic() - start < 15
for connection in held:
    connection.close()
engine.dispose()
print("peak", max(count for count, _ in peaks))
