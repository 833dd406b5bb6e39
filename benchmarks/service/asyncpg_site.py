"""The same work in coroutines: FastAPI, asyncpg, redis-py's asyncio client."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import asyncpg
import redis.asyncio
from fastapi import FastAPI
from fastapi.responses import PlainTextResponse

from benchmarks.service.database import CONNECTIONS, COUNTER, ITEMS, PATIENCE, POSTGRES, REDIS, TABLE

pool = redis.asyncio.BlockingConnectionPool.from_url(REDIS, max_connections=CONNECTIONS, timeout=PATIENCE)
counters = redis.asyncio.Redis(connection_pool=pool)


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    """Open the pool."""
    async with asyncpg.create_pool(POSTGRES, min_size=CONNECTIONS, max_size=CONNECTIONS) as app.state.pool:
        yield


app = FastAPI(lifespan=lifespan)


@app.get("/", response_class=PlainTextResponse)
async def item() -> str:
    """Count the request, and show an item."""
    number = await counters.incr(COUNTER)
    name = await app.state.pool.fetchval(f"SELECT name FROM {TABLE} WHERE id = $1", number % ITEMS)
    return f"{number}: {name}\n"
