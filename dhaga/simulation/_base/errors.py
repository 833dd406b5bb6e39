"""The errors that a simulation raises."""

from __future__ import annotations


class NotSimulated(RuntimeError):
    """A call that a simulation cannot repeat. The message names the call and the alternatives."""


class NotDeterministic(AssertionError):
    """Two runs of one seed differ. The message shows the first event that differs."""


class LimitReached(Exception):
    """A run has exceeded its limit of events or of virtual time. Without the limit the run might never end."""


class HostKilled(Exception):
    """The host of a dhaga was killed before the dhaga ended. The dhaga's ``result()`` raises this error."""


class Stopped(BaseException):
    """The error that ends the main code, or a thread that loops, after the run has failed."""
