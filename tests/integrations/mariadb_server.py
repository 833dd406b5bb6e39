"""The MariaDB that the tests of its drivers ask."""

from __future__ import annotations

import urllib.parse
from typing import Any

from tests.scenarios.test_asyncio_libraries import address_of

LOST = {2006, 2013}
"""The numbers of a driver's errors for a lost server."""


def connection_options() -> dict[str, Any]:
    """Return the arguments of a driver's ``connect``. The test is skipped where no server answers."""
    url = urllib.parse.urlsplit(address_of("DHAGA_MARIADB", "mysql://root@127.0.0.1:3306/test"))
    return {
        "host": url.hostname,
        "port": url.port or 3306,
        "user": url.username or "root",
        "password": url.password or "",
        "database": url.path.strip("/"),
    }
