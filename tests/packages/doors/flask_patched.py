"""The same app, which patches in its first line, as it must where nothing else does."""

import dhaga.monkey

dhaga.monkey.patch()

from tests.packages.doors.flask_blocking import app  # noqa: E402, F401
