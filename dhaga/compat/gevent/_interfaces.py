"""``gevent._interfaces``: names for annotations (pika); they are the classes themselves."""

from __future__ import annotations

from ._loop import Callback as ICallback
from ._loop import Loop as ILoop
from ._loop import Watcher as IWatcher

__all__ = ["ICallback", "ILoop", "IWatcher"]
