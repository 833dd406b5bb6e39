"""Two threads send requests with headers of their own through one client: one request gets the other's headers."""

import http.server
import threading

from python_http_client import Client

seen = {}


class Hello(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        seen[self.path] = self.headers["X-Tenant"]
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Hello) as server:
    threading.Thread(target=server.serve_forever, daemon=True).start()
    client = Client(f"http://127.0.0.1:{server.server_port}", {"Authorization": "Bearer key"})

    def send(tenant):
        client._(tenant).get(request_headers={"X-Tenant": tenant})

    threads = [threading.Thread(target=send, args=(tenant,)) for tenant in ("one", "two")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    server.shutdown()
assert seen == {"/one": "one", "/two": "two"}, seen
