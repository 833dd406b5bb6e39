"""The engine: dhagas, the scheduler that runs them, and the one way to wait. It imports no district above it."""

from . import interpreter  # noqa: F401  # isort: skip  (before greenlet: it raises where Dhaga cannot work)
from .process import fork, shutdown  # noqa: F401  (for their side effects: handlers of forks and of the exit)
