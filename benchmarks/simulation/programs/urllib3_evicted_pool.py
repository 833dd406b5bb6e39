"""Two threads ask two servers through a pool manager that keeps one pool: one closes the pool that the other got."""

import http.server
import threading

import urllib3


class Hello(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Length", "5")
        self.end_headers()
        self.wfile.write(b"hello")

    def log_message(self, *_):
        pass


servers = [http.server.ThreadingHTTPServer(("127.0.0.1", 0), Hello) for _ in range(2)]
for server in servers:
    threading.Thread(target=server.serve_forever, daemon=True).start()
manager = urllib3.PoolManager(num_pools=1)


def fetch(port):
    for _ in range(2):
        assert manager.request("GET", f"http://127.0.0.1:{port}/", retries=False).data == b"hello"


threads = [threading.Thread(target=fetch, args=(server.server_port,)) for server in servers]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
for server in servers:
    server.shutdown()
