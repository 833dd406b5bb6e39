"""The table that the services read, and where PostgreSQL and Redis are: DHAGA_POSTGRES and DHAGA_REDIS, each a URL."""

import os

POSTGRES = os.environ.get("DHAGA_POSTGRES", "postgresql://postgres@127.0.0.1:5432/postgres")
REDIS = os.environ.get("DHAGA_REDIS", "redis://127.0.0.1:6379/0")

DRIVER_VARIABLE = "DHAGA_BENCHMARK_DRIVER"
DRIVER = os.environ.get(DRIVER_VARIABLE, "psycopg2")
"""The driver that SQLAlchemy uses for PostgreSQL."""

TABLE = "dhaga_benchmark_item"
ITEMS = 1_000
COUNTER = "dhaga-benchmark-requests"
CONNECTIONS = 20
"""Maximum number of connections in each pool of a service, to PostgreSQL and to Redis. The pool of redis-py waits for a
free connection, because redis-py's default pool raises an error beyond 100 connections.
"""

PATIENCE = 60.0
"""Seconds that a request waits for a connection."""


def fill() -> None:
    """Create the table anew, and reset the counter. Raises: an error of psycopg2 or redis-py if a server is missing."""
    import psycopg2
    import redis

    with psycopg2.connect(POSTGRES) as connection, connection.cursor() as cursor:
        cursor.execute(f"DROP TABLE IF EXISTS {TABLE}")
        cursor.execute(f"CREATE TABLE {TABLE} (id integer PRIMARY KEY, name text NOT NULL)")
        cursor.execute(f"INSERT INTO {TABLE} SELECT n, 'item ' || n FROM generate_series(0, {ITEMS - 1}) n")
    connection.close()
    with redis.Redis.from_url(REDIS) as client:
        client.delete(COUNTER)
