"""python -m examples.web threads|serve|gunicorn: serve the app in one of three ways, and run the backend behind it."""

from __future__ import annotations

import argparse
import os
import shlex
import subprocess

from .backend import SECONDS
from .servers import WAYS, allow_connections, backend, command_of


def main() -> int:
    """Serve until Ctrl-C. Returns: the exit status of the server."""
    parser = argparse.ArgumentParser(prog="python -m examples.web")
    parser.add_argument("way", choices=WAYS)
    parser.add_argument("--bind", default="127.0.0.1:8000", metavar="HOST:PORT", help="(127.0.0.1:8000)")
    options = parser.parse_args()
    allow_connections()
    with backend(SECONDS) as url:
        command = command_of(options.way, options.bind)
        print(f"BACKEND={url}", shlex.join(command), flush=True)
        with subprocess.Popen(command, env={**os.environ, "BACKEND": url}) as server:
            while True:
                try:
                    return server.wait()
                except KeyboardInterrupt:  # the server has it, too
                    continue


if __name__ == "__main__":
    raise SystemExit(main())
