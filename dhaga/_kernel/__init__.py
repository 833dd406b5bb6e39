"""The engine: dhagas, the scheduler that runs them, and the one way to wait. It imports no district above it."""

from .interpreter import requirements, guards  # noqa: F401, I001  (before all others: a check, and an import hook)
from .process import fork, shutdown  # noqa: F401  (for their side effects: handlers of forks and of the exit)
