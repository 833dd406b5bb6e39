"""Two threads disconnect the connections of a pool, as they do after a failover."""

import socketserver
import threading

import redis


class Server(socketserver.StreamRequestHandler):
    def handle(self):
        while head := self.rfile.readline():
            for _ in range(int(head[1:])):
                size = int(self.rfile.readline()[1:])
                self.rfile.read(size + 2)
            self.wfile.write(b"+PONG\r\n")


with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Server) as server:
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    pool = redis.ConnectionPool(host="127.0.0.1", port=server.server_address[1])
    assert redis.StrictRedis(connection_pool=pool).ping()
    threads = [threading.Thread(target=pool.disconnect) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    server.shutdown()
