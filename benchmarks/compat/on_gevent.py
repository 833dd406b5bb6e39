"""The programs on gevent itself."""

from __future__ import annotations

from benchmarks.compat.programs import PROGRAMS as PROGRAMS
