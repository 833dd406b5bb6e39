"""Socket.IO on gevent or eventlet: by Flask-SocketIO's own server, or by python-socketio in a WSGI server.

``flask gevent``: which of both, and the async mode. Each answer waits until ``crowd`` clients have asked.
"""

import socket
import sys

kind, mode = sys.argv[1:]
crowd = set()
with socket.create_server(("127.0.0.1", 0)) as probe:
    port = probe.getsockname()[1]


def doubled(sio, sid, number, count):
    crowd.add(sid)
    for _ in range(1000):
        if len(crowd) >= count:
            break
        sio.sleep(0.02)
    sio.start_background_task(tick, sio, sid)
    return 2 * number


def tick(sio, sid):
    for number in range(3):
        sio.sleep(0.01)
        sio.emit("tick", number, to=sid)


print("port", port, file=sys.stderr)
if kind == "flask":
    import flask
    import flask_socketio

    app = flask.Flask(__name__)
    sio = flask_socketio.SocketIO(app, async_mode=mode)
    assert sio.async_mode == mode

    @sio.on("double")
    def double(number, count):
        return doubled(sio, flask.request.sid, number, count)  # type: ignore[attr-defined]

    @app.get("/")
    def index():
        return "hello"

    sio.run(app, host="127.0.0.1", port=port)
else:
    import socketio

    sio = socketio.Server(async_mode=mode)
    sio.on("double", lambda sid, number, count: doubled(sio, sid, number, count))
    app = socketio.WSGIApp(sio)
    if mode == "gevent":
        from gevent import pywsgi

        try:
            from geventwebsocket.handler import WebSocketHandler

            options = {"handler_class": WebSocketHandler}
        except ImportError:
            options = {}
        pywsgi.WSGIServer(("127.0.0.1", port), app, log=None, **options).serve_forever()
    else:
        import eventlet
        import eventlet.wsgi

        eventlet.wsgi.server(eventlet.listen(("127.0.0.1", port)), app, log_output=False)
