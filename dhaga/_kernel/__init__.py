"""The kernel: dhagas, their scheduler, and the waits that other packages use. The kernel does not import its users."""

from .interpreter import requirements, guards  # noqa: F401, I001  (before all others: a check, and an import hook)
from .process import fork, process_exit  # noqa: F401  (for their side effects: handlers of forks and of the exit)
