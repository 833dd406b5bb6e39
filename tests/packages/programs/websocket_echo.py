"""websocket-client: 200 threads, a connection each; the server answers nobody until all of them have spoken."""

import os
import threading

import websocket

COUNT = 200
url = os.environ["WEBSOCKET_URL"]
answers = {}


def work(n):
    socket = websocket.create_connection(url, timeout=20)
    socket.send(f"{n}")
    answers[n] = (socket.recv(), socket.recv())
    socket.close()


def by_app(n):
    def on_message(app, message):
        answers[n] = (*answers.get(n, ()), message)
        if len(answers[n]) == 2:
            app.close()

    websocket.WebSocketApp(url, on_open=lambda app: app.send(f"{n}"), on_message=on_message).run_forever()


threads = [threading.Thread(target=by_app if n % 2 else work, args=(n,)) for n in range(COUNT)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert answers == {n: (f"{COUNT} at once", f"{n}") for n in range(COUNT)}
print("peak", COUNT)
