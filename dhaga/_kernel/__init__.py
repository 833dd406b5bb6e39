"""The engine: dhagas, the scheduler that runs them, and the one way to wait. It imports no district above it."""

from . import interpreter, atomic_lines  # noqa: F401, I001  (before all others: they raise where Dhaga cannot work)
from .process import fork, shutdown  # noqa: F401  (for their side effects: handlers of forks and of the exit)
