"""A FastAPI site with a `def` handler: an item from PostgreSQL and Redis."""

from fastapi import FastAPI
from fastapi.responses import PlainTextResponse

from benchmarks.service import item

app = FastAPI()
app.get("/", response_class=PlainTextResponse)(item.item)
