"""A Flask app with WebSockets: flask-sock at /echo, and Flask-SocketIO."""

from __future__ import annotations

import threading
import time
from typing import Any

from flask import Flask
from flask_sock import Sock
from flask_socketio import SocketIO, emit

app = Flask(__name__)
sock = Sock(app)
members: list[Any] = []
speaking = threading.Lock()
socketio = SocketIO(app, async_mode="threading", cors_allowed_origins="*")


@sock.route("/echo")
def echo(websocket: Any) -> None:
    while True:
        message = websocket.receive()
        time.sleep(0.01)
        websocket.send(message)


@sock.route("/bye")
def bye(websocket: Any) -> None:
    websocket.send("bye")


@sock.route("/room")
def room(websocket: Any) -> None:
    members.append(websocket)
    websocket.send(threading.get_native_id())
    while True:
        message = websocket.receive()
        with speaking:
            for member in members:
                member.send(message)


@socketio.on("double")
def double(number: int) -> None:
    time.sleep(0.05)
    emit("doubled", 2 * number)


@app.get("/")
def index() -> str:
    return "hello"
