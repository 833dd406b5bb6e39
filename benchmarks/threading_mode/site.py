"""A site as written for threads: a page that waits, and Flask-SocketIO's `async_mode="threading"`."""

import os
import sys
import time

from flask import Flask
from flask_socketio import SocketIO

SECONDS = float(os.environ["THREADING_MODE_SECONDS"])
app = Flask(__name__)
socketio = SocketIO(app, async_mode="threading")


@app.get("/wait")
def wait() -> str:
    time.sleep(SECONDS)
    return "done"


def answer(number: int) -> int:
    time.sleep(SECONDS)
    return number


socketio.on_event("wait", answer)


if __name__ == "__main__":
    socketio.run(app, "127.0.0.1", int(sys.argv[1]), allow_unsafe_werkzeug=True)
