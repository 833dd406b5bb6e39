"""The watch over a run: an OS thread that ends it as soon as an invariant is broken or nothing goes on any more."""

from __future__ import annotations

import logging
import os
import resource
import threading
import time
from typing import TYPE_CHECKING

from dhaga import debug

if TYPE_CHECKING:
    from tests.soak.run import Run

STALL = 20.0
"""Seconds without an operation of a scenario, or a beat of a place, after which the run counts as hung. The longest
seen on two busy cores: 1 s.
"""

END = 40.0
"""Seconds that a run may take to end."""

OTHERS = 5
"""Failures after the first that are told, too: mostly they follow from it."""

GLANCE = 0.5
"""Seconds between two looks."""


class Watch:
    """Look at a run until it has ended. If it fails, the process ends with status 1, once all is told."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.over = threading.Event()
        self.limits = resource.getrlimit(resource.RLIMIT_NOFILE)
        self.thread = threading.Thread(target=self.look, name="watch", daemon=True)
        self.thread.start()

    def look(self) -> None:
        ledger = self.run.ledger
        while not self.over.is_set():
            if ledger.failed.wait(GLANCE):
                break
            if stalled := self.stalled():
                ledger.fail(stalled)
        if ledger.failed.is_set():
            self.end()

    def stalled(self) -> str | None:
        """Say what does not go on, if that is so."""
        now, run = time.monotonic(), self.run
        if run.over:
            return f"the run has not ended in {END} s" if now > run.over_since + END else None
        for tally in (run.ledger.operations, run.pulses):
            for name, moment in list(tally.last.items()):
                if now > moment + STALL:
                    return f"{name}: nothing went on for {STALL} s"
        return None

    def end(self) -> None:
        """Tell what has failed, how to repeat it, and where everybody stands; then end the process."""
        run = self.run
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, self.limits)  # to read the lines of tracebacks
            first, *others = run.ledger.failures
            run.tell(f"FAILED soak --seed {run.seed} - {first.headline()}")
            for each in (first, *others[:OTHERS], debug.dump(), run.progress()):
                run.tell(str(each))
            run.tell(f"== soak {run.name} FAILED: repeat it with --seed {run.seed}")
        finally:
            os._exit(1)

    def stop(self) -> None:
        """End the watch; unless it has something to tell yet."""
        self.over.set()
        self.thread.join()


class Listener(logging.Handler):
    """Take each error that the library logs for a failure, but for what a trouble explains."""

    def __init__(self, run: Run) -> None:
        super().__init__(logging.ERROR)
        self.run = run

    def emit(self, record: logging.LogRecord) -> None:
        """Look at one line of the log."""
        text = record.getMessage()
        if not ("cannot accept more connections" in text and self.run.shortage.is_felt()):
            self.run.ledger.fail(f"logged: {text}", record.exc_info[1] if record.exc_info else None)
