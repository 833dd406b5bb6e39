"""SQLAlchemy's asyncio extension in dhagas: its ``await_only`` looks for a parent greenlet, and finds ``await_``.

SQLAlchemy awaits by switching from its own greenlet to the parent with the awaitable, and is resumed with the result.
It does so in any greenlet that has ``__sqlalchemy_greenlet_provider__`` (changes 1.4.53 and 2.0.31). So each dhaga
carries that mark, and its ``parent`` reads as an object whose ``switch`` is ``await_``. Assigning ``parent`` still sets
the real one. No state is kept, and only code that runs in a dhaga comes here.
"""

from __future__ import annotations

from greenlet import greenlet

from .._kernel.run.microthread import Dhaga
from ._await import await_


class AwaitBySwitch:
    """What SQLAlchemy finds as the parent of a dhaga: switching to it with an awaitable awaits that."""

    switch = staticmethod(await_)


AWAIT_BY_SWITCH = AwaitBySwitch()


parent = greenlet.__dict__["parent"]
Dhaga.__sqlalchemy_greenlet_provider__ = True  # type: ignore[attr-defined]
Dhaga.parent = property(lambda dhaga: AWAIT_BY_SWITCH, parent.__set__)
