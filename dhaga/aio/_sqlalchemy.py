"""SQLAlchemy's asyncio extension in dhagas: its ``await_only`` looks for a parent greenlet, and finds ``await_``.

SQLAlchemy awaits by switching from its own greenlet to the parent with the awaitable, and is resumed with the result.
It does so in any greenlet with ``__sqlalchemy_greenlet_provider__`` (since 1.4.53 and 2.0.31). So each dhaga has this
attribute, and its ``parent`` is an object whose ``switch`` is ``await_``. Assigning ``parent`` still sets the real one.
No state is kept, and only code that runs in a dhaga comes here.
"""

from __future__ import annotations

from greenlet import greenlet

from .._kernel.run.microthread import Dhaga
from ._await import await_


class AwaitBySwitch:
    """The parent of a dhaga for SQLAlchemy: a switch to it with an awaitable awaits it."""

    switch = staticmethod(await_)


AWAIT_BY_SWITCH = AwaitBySwitch()


parent = greenlet.__dict__["parent"]
Dhaga.__sqlalchemy_greenlet_provider__ = True  # type: ignore[attr-defined]
Dhaga.parent = property(lambda dhaga: AWAIT_BY_SWITCH, parent.__set__)
