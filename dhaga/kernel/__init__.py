"""The engine: dhagas, the scheduler that runs them, and the one way to wait. It knows nothing of what is above it."""

from . import exit, fork  # noqa: F401  (nobody calls them: they are called when a process ends and forks)
