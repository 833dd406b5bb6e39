"""A FastAPI app, one of ASGI: an endpoint that blocks, which FastAPI runs in a thread, and one that is a coroutine."""

from __future__ import annotations

import time

from fastapi import FastAPI

from tests.packages.doors.meeting import meet

app = FastAPI()


@app.get("/meet/{crowd}")
def meet_by_sleep(crowd: int) -> int:
    return meet(crowd, lambda: time.sleep(0.02))


@app.get("/async")
async def coroutine() -> str:
    return "async"
