"""Makes SQLAlchemy's asyncio extension work in dhagas: a switch to the parent greenlet calls ``dhaga.await_``.

SQLAlchemy's ``await_only`` (now ``await_``) passes an awaitable to the parent greenlet with ``switch``, which returns
the result. Since 1.4.53 and 2.0.31, this works in any greenlet with the attribute ``__sqlalchemy_greenlet_provider__``.
So each dhaga has this attribute, and its ``parent`` is an object whose ``switch`` is ``dhaga.await_``. An assignment to
``parent`` still sets the real parent. The module keeps no state, and affects only code that runs in a dhaga.
"""

from __future__ import annotations

from greenlet import greenlet

from .._kernel.run.microthread import Dhaga
from ._await import await_


class AwaitBySwitch:
    """The apparent parent of a dhaga. Its ``switch`` awaits the passed awaitable."""

    switch = staticmethod(await_)


AWAIT_BY_SWITCH = AwaitBySwitch()


parent = greenlet.__dict__["parent"]
Dhaga.__sqlalchemy_greenlet_provider__ = True  # type: ignore[attr-defined]
Dhaga.parent = property(lambda dhaga: AWAIT_BY_SWITCH, parent.__set__)
