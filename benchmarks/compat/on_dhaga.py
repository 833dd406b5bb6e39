"""The same programs on Dhaga: their ``import gevent`` finds ``dhaga.compat.gevent``."""

from __future__ import annotations

import dhaga.compat

dhaga.compat.install("gevent")

from benchmarks.compat.programs import PROGRAMS as PROGRAMS  # noqa: E402
