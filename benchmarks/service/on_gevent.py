"""gunicorn's settings for the gevent worker: psycopg2 waits by psycogreen."""

from typing import Any


def post_fork(server: Any, worker: Any) -> None:
    """Have psycopg2 wait in the worker without holding the others up."""
    from psycogreen.gevent import patch_psycopg

    patch_psycopg()
