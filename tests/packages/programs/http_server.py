"""http.server.ThreadingHTTPServer: 200 requests of http.client and urllib, all of them in a handler at once."""

import http.client
import http.server
import json
import threading
import urllib.request

COUNT = 200
served = threading.Barrier(COUNT)
answers = {}


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        question = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        served.wait()
        body = json.dumps({"square": question["number"] ** 2}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args):
        pass


class Server(http.server.ThreadingHTTPServer):
    request_queue_size = 1000


def by_client(n):
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=20)
    connection.request("POST", "/", json.dumps({"number": n}))
    answers[n] = json.load(connection.getresponse())["square"]
    connection.close()


def by_urllib(n):
    request = urllib.request.Request(f"http://127.0.0.1:{server.server_port}", json.dumps({"number": n}).encode())
    with urllib.request.urlopen(request, timeout=20) as response:
        answers[n] = json.load(response)["square"]


with Server(("127.0.0.1", 0), Handler) as server:
    serving = threading.Thread(target=server.serve_forever, args=(0.05,))
    serving.start()
    threads = [threading.Thread(target=by_client if n % 2 else by_urllib, args=(n,)) for n in range(COUNT)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    server.shutdown()
    serving.join()
assert answers == {n: n * n for n in range(COUNT)}
print("peak", COUNT)
