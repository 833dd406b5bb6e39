"""The app: a report that needs a slow backend, and news that clients wait for. Ordinary Flask.

The two imports from dhaga are all that makes it one for dhagas: the names are those of `import threading` and
`import requests`. On plain threads they wait as the standard ones do, so that this file is served in all three ways.
"""

from __future__ import annotations

import os

from flask import Flask, request

from dhaga import threading
from dhaga.http import requests

BACKEND = os.environ.get("BACKEND", "http://127.0.0.1:8001")
PATIENCE = 30.0  # seconds, for the backend and for a long poll: proxies wait for 60 mostly

app = Flask(__name__)
session = requests.Session()


class Board:
    """The news, of this process, and those who wait for more."""

    def __init__(self) -> None:
        self.news: list[str] = []
        self.more = threading.Condition()

    def post(self, text: str) -> int:
        """Add a piece, and tell all clients. Returns: its number."""
        with self.more:
            self.news.append(text)
            self.more.notify_all()
            return len(self.news)

    def since(self, number: int, timeout: float) -> list[str]:
        """Return what came after a piece, as soon as there is any; nothing if that takes too long."""
        with self.more:
            self.more.wait_for(lambda: len(self.news) > number, timeout)
            return self.news[number:]


board = Board()


@app.get("/")
def index() -> str:
    """Answer at once."""
    return "See /report/1 and /news?since=0\n"


@app.get("/report/<int:number>")
def report(number: int) -> dict[str, int]:
    """Ask the backend, which takes its time."""
    answer = session.get(f"{BACKEND}/rows/{number}", timeout=PATIENCE)
    answer.raise_for_status()
    return {"report": number, "total": sum(answer.json()["rows"])}


@app.get("/news")
def news() -> dict[str, object]:
    """Wait for what came after piece number `since`, for `wait` seconds at most: a long poll."""
    since = request.args.get("since", 0, int)
    pieces = board.since(since, min(PATIENCE, request.args.get("wait", PATIENCE, float)))
    return {"news": pieces, "since": since + len(pieces)}


@app.post("/news")
def post() -> dict[str, int]:
    """Bring news."""
    return {"since": board.post(request.form["text"])}
