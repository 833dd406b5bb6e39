"""gunicorn's settings for the gevent worker: psycopg2 waits by psycogreen."""

from typing import Any


def post_fork(server: Any, worker: Any) -> None:
    """Let psycopg2 wait in the worker without blocking the other greenlets."""
    from psycogreen.gevent import patch_psycopg

    patch_psycopg()
