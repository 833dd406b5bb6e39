"""Let zerorpc, and whatever else imports nothing of gevent but its API, import Dhaga's ``gevent``."""

from __future__ import annotations

import dhaga.compat

dhaga.compat.install("gevent")
