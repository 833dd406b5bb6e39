"""The errors that a simulation raises."""

from __future__ import annotations


class NotSimulated(RuntimeError):
    """A call that a simulation cannot repeat: it names the call and the ways out."""


class NotDeterministic(AssertionError):
    """Two runs of one seed differ: it shows the first event that does."""


class LimitReached(Exception):
    """A run has taken more events, or more virtual time, than it may: it may never end."""


class HostKilled(Exception):
    """The host of a dhaga was killed while it ran: ``result()`` raises it."""


class Stopped(BaseException):
    """Ends the main code of a simulation that has failed elsewhere."""
