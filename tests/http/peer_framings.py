"""Record how gevent and eventlet read the framings: ``python -m tests.http.peer_framings > FILE``, peer_framings.json.

It needs both packages and nothing of Dhaga; ``tests/scenarios/test_one_reading.py`` compares.
"""

from __future__ import annotations

import importlib.metadata
import json
import socket
import subprocess
import sys
from typing import Any

from tests.http.framings import LEGAL, REFUSED, SMUGGLED, fuzzed, telling, understood

SEEDS = 1500


def gevent_server() -> None:
    """Serve until the process is ended."""
    from gevent.pywsgi import WSGIServer

    server = WSGIServer(("127.0.0.1", 0), telling, log=None, error_log=None)
    server.start()
    print(server.server_port, flush=True)
    server.serve_forever()


def eventlet_server() -> None:
    """Serve until the process is ended."""
    import eventlet
    from eventlet import wsgi

    listener = eventlet.listen(("127.0.0.1", 0))
    print(listener.getsockname()[1], flush=True)
    wsgi.server(listener, telling, log_output=False, debug=False)


SERVERS = {"gevent": gevent_server, "eventlet": eventlet_server}


def record(name: str) -> dict[str, Any]:
    """Return what a peer makes of each framing: how many requests it understood."""
    command = [sys.executable, "-m", "tests.http.peer_framings", name]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout is not None
        address = "127.0.0.1", int(process.stdout.readline())

        def count(data: bytes) -> int:
            return len(understood(socket.create_connection, address, data)[0])

        try:
            named = {case: count(data + SMUGGLED) for case, (data, _) in (*REFUSED.items(), *LEGAL.items())}
            return {
                "version": importlib.metadata.version(name),
                "requests understood": named,
                "requests understood, by seed": "".join(str(count(fuzzed(seed))) for seed in range(SEEDS)),
            }
        finally:
            process.kill()


if __name__ == "__main__":
    if sys.argv[1:]:
        SERVERS[sys.argv[1]]()
    else:
        json.dump({name: record(name) for name in SERVERS}, sys.stdout, indent=1)
        print()
