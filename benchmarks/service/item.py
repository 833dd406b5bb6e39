"""The work of a request in a threaded program: an INCR with redis-py, and a SELECT with SQLAlchemy and a driver."""

import redis
from sqlalchemy import create_engine, make_url, text

from benchmarks.service.database import CONNECTIONS, COUNTER, DRIVER, ITEMS, PATIENCE, POSTGRES, REDIS, TABLE

engine = create_engine(
    make_url(POSTGRES).set(drivername=f"postgresql+{DRIVER}"),
    pool_size=CONNECTIONS,
    max_overflow=0,
    pool_timeout=PATIENCE,
)
select = text(f"SELECT name FROM {TABLE} WHERE id = :id")
pool = redis.BlockingConnectionPool.from_url(REDIS, max_connections=CONNECTIONS, timeout=PATIENCE)
counters = redis.Redis(connection_pool=pool)


def item() -> str:
    """Count the request, and return an item."""
    number = int(counters.incr(COUNTER))
    with engine.connect() as connection:
        name = connection.execute(select, {"id": number % ITEMS}).scalar_one()
    return f"{number}: {name}\n"
