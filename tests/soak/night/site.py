"""The app of the night: views that wait in drivers. Each answer can be told right or wrong by whoever asked.

The services are those at ``NIGHT_POSTGRES`` and ``NIGHT_REDIS``. While one is away its views answer with status 503.
"""

from __future__ import annotations

import hashlib
import json
import os
import time

import psycopg
import psycopg_pool
import redis
import sqlalchemy
from flask import Flask, Response, request

from tests.soak.machine import live_dhagas

POSTGRES, REDIS = os.environ["NIGHT_POSTGRES"], os.environ["NIGHT_REDIS"]
CONNECTIONS = 4
"""In each pool of a worker: fewer than its clients, so that some wait."""

WAIT = 10.0
"""Seconds for which a view waits for a connection."""

KEPT = 60
"""Seconds after which Redis forgets what the views have written."""

app = Flask(__name__)
engine = sqlalchemy.create_engine(
    POSTGRES.replace("postgresql:", "postgresql+psycopg2:"),
    pool_size=CONNECTIONS,
    max_overflow=0,
    pool_timeout=WAIT,
    pool_pre_ping=True,
)
pool = psycopg_pool.ConnectionPool(
    POSTGRES, min_size=1, max_size=CONNECTIONS, timeout=WAIT, check=psycopg_pool.ConnectionPool.check_connection
)
store = redis.Redis(
    connection_pool=redis.BlockingConnectionPool.from_url(REDIS, max_connections=CONNECTIONS, timeout=WAIT)
)
AWAY = (sqlalchemy.exc.OperationalError, psycopg.OperationalError, psycopg_pool.PoolTimeout, redis.ConnectionError)


def say_away(error: Exception) -> tuple[str, int]:
    """Answer that a service is away."""
    return f"{type(error).__name__}: {error}", 503


for kind in AWAY:
    app.register_error_handler(kind, say_away)


@app.errorhandler(ConnectionResetError)
def end_quietly(error: Exception) -> tuple[str, int]:
    """Answer a client that has died in the middle of its request; Flask would log it as an error of ours."""
    return str(error), 400


@app.get("/psycopg2/<token>")
def by_psycopg2(token: str) -> str:
    with engine.connect() as connection:
        query = sqlalchemy.text("SELECT md5(:token), pg_sleep(0.01)")
        return str(connection.execute(query, {"token": token}).scalar_one())


@app.get("/psycopg/<token>")
def by_psycopg(token: str) -> str:
    with pool.connection() as connection:
        found = connection.execute("SELECT md5(%s), pg_sleep(0.01)", [token]).fetchone()
    assert found is not None
    return str(found[0])


@app.get("/redis/<token>")
def by_redis(token: str) -> str:
    key = f"dhaga-night-{token}"
    store.set(key, hashlib.md5(token.encode()).hexdigest(), ex=KEPT)
    time.sleep(0.01)
    found = store.get(key)
    assert isinstance(found, bytes)
    return found.decode()


@app.get("/later/<token>")
def later(token: str) -> str:
    time.sleep(0.05)
    return hashlib.md5(token.encode()).hexdigest()


@app.post("/body")
def body() -> Response:
    data = request.get_data()
    return Response(hashlib.sha256(data).digest() + data, mimetype="application/octet-stream")


@app.get("/usage")
def usage() -> str:
    return json.dumps([os.getpid(), live_dhagas()])
