"""The program's code may be preempted behind each door through which Dhaga calls it."""

from __future__ import annotations

from tests.kit.scripts import prints


def test_behind_each_door_no_function_of_dhaga_keeps_the_turn() -> None:
    """Code behind a door that is not marked as a call-out would never be preempted."""
    assert prints(
        """
        import _thread, asyncio, http.server, sys, threading, urllib.request
        from concurrent.futures import Future, ThreadPoolExecutor
        from multiprocessing.pool import ThreadPool
        import dhaga, dhaga.futures, dhaga.pool
        from dhaga import socket
        from dhaga._kernel.run.call_outs import is_switchable
        from dhaga.http.wsgi import Server
        from dhaga.servers import TCPServer

        kept = []

        def look(door):
            if not is_switchable(sys._getframe()):
                kept.append(door)

        class Subclass(threading.Thread):
            def run(self):
                super().run()

        for kind in (threading.Thread, Subclass):
            thread = kind(target=look, args=(kind.__name__,))
            thread.start()
            thread.join()
        timer = threading.Timer(0, look, ("Timer",))
        timer.start()
        timer.join()
        ended = threading.Event()
        _thread.start_new_thread(lambda: (look("_thread"), ended.set()), ())
        ended.wait()
        with ThreadPoolExecutor() as executor:
            executor.submit(look, "ThreadPoolExecutor").result()
        with ThreadPool(1) as pool:
            pool.map(look, ["ThreadPool"])
        with dhaga.futures.Executor() as executor:
            executor.submit(look, "Executor").result()
        with dhaga.pool.Pool() as pool:
            pool.submit(look, "Pool").result()
        dhaga.spawn(look, "spawn").join()
        dhaga.spawn_later(0, look, "spawn_later").join()
        dhaga.race(lambda: look("race"))
        with dhaga.Scope() as scope:
            scope.spawn(look, "Scope")

        async def from_a_coroutine():
            await dhaga.aio.run_in_dhaga(look, "run_in_dhaga")
            await asyncio.to_thread(look, "to_thread")

        dhaga.await_(from_a_coroutine())
        asyncio.run(from_a_coroutine())
        future = Future()
        future.add_done_callback(lambda _: look("callback of a Future"))
        future.set_result(None)

        with TCPServer(lambda sock, peer: look("TCPServer")) as server:
            with socket.create_connection(server.address) as sock:
                sock.recv(1)

        def app(environ, start_response):
            look("WSGI app")
            start_response("200 OK", [])

            def body():
                yield b"first"
                look("body of a WSGI app")

            return body()

        with Server(app) as server:
            urllib.request.urlopen("http://%s:%d/" % server.address).read()

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                look("http.server")
                self.send_response(200)
                self.end_headers()

            def log_message(self, *_):
                pass

        with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
            threading.Thread(target=server.serve_forever, daemon=True).start()
            urllib.request.urlopen("http://127.0.0.1:%d/" % server.server_port).read()
            server.shutdown()

        look("main code")
        print(kept)
        """,
        "-m",
        "dhaga",
    ) == ["[]"]
