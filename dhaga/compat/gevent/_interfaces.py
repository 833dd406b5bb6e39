"""``gevent._interfaces``: aliases of implementing classes, for annotations such as those in pika."""

from __future__ import annotations

from ._loop import Callback as ICallback
from ._loop import Loop as ILoop
from ._loop import Watcher as IWatcher

__all__ = ["ICallback", "ILoop", "IWatcher"]
