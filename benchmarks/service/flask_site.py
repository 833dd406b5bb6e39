"""A Flask site: an item from PostgreSQL and Redis; /wait waits 20 ms."""

import time

from flask import Flask

from benchmarks.service import item

WAIT = 0.02

app = Flask(__name__)
app.get("/")(item.item)


@app.get("/wait")
def wait() -> str:
    """Wait for 20 ms, as for another service."""
    time.sleep(WAIT)
    return "waited\n"
