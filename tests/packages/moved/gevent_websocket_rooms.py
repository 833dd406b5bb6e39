"""gevent-websocket: a server whose application tells each message to all that are there, and a plain page."""

import sys

import gevent
from geventwebsocket import Resource, WebSocketApplication, WebSocketServer


class Room(WebSocketApplication):
    def on_open(self):
        self.ws.send("open")

    def on_message(self, message):
        if message is not None:
            gevent.sleep(0.01)
            for client in list(self.ws.handler.server.clients.values()):
                client.ws.send(message)

    def on_close(self, reason):
        print("left", file=sys.stderr)


def page(environ, start_response):
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [b"page"]


server = WebSocketServer(("127.0.0.1", 0), Resource([("/room", Room), ("/", page)]))
server.start()
print("port", server.server_port, file=sys.stderr)
server.serve_forever()
