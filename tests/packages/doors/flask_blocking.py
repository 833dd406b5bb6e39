"""A Flask app as written for threads: it blocks in time.sleep, psycopg2, redis-py and requests, and runs coroutines."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from typing import Any

from flask import Flask, request

import dhaga.monkey
from tests.packages.doors.meeting import forget, meet

app = Flask(__name__)


def by_sleep() -> None:
    time.sleep(0.02)


def by_psycopg2() -> None:
    import psycopg2

    with psycopg2.connect(os.environ["DHAGA_POSTGRES"]) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT pg_sleep(0.05)")
    connection.close()


def by_redis() -> None:
    import redis

    with redis.Redis.from_url(os.environ["DHAGA_REDIS"]) as client:
        client.blpop(["dhaga-no-such-list"], timeout=0.05)


def by_requests() -> None:
    import requests

    assert requests.get(f"{request.host_url}slow", timeout=20).text == "slow"


WAYS: dict[str, Callable[[], None]] = {
    "sleep": by_sleep,
    "psycopg2": by_psycopg2,
    "redis": by_redis,
    "requests": by_requests,
}


@app.get("/meet/<way>/<int:crowd>")
def meet_by(way: str, crowd: int) -> str:
    return str(meet(crowd, WAYS[way]))


@app.get("/slow")
def slow() -> str:
    time.sleep(0.02)
    return "slow"


@app.get("/forget")
def start_anew() -> str:
    forget()
    return "forgotten"


@app.get("/patched")
def patched() -> str:
    return str(dhaga.monkey.is_patched())


@app.get("/async")
async def coroutine() -> str:
    await asyncio.sleep(0.01)
    return "async view"


@app.get("/run")
def run() -> Any:
    async def answer() -> str:
        await asyncio.sleep(0.01)
        return "asyncio.run"

    return asyncio.run(answer())
