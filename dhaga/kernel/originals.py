"""The standard library's own functions, taken before anybody can patch them. The kernel calls only these."""

from __future__ import annotations

import _thread
import os
import select
import selectors
import socket
import threading
import time
from typing import Any

allocate_lock = _thread.allocate_lock
get_ident = _thread.get_ident
TIMEOUT_MAX = _thread.TIMEOUT_MAX
start_new_thread = _thread.start_new_thread
Thread = threading.Thread
current_thread = threading.current_thread
enumerate_threads = threading.enumerate
main_thread = threading.main_thread
RLock = threading.RLock
local = threading.local
monotonic = time.monotonic
thread_sleep = time.sleep
socketpair = socket.socketpair
DefaultSelector = selectors.DefaultSelector
close = os.close
getpid = os.getpid
pipe = os.pipe
write = os.write
select_module = select
poll: Any = getattr(select, "poll", None)
epoll: Any = getattr(select, "epoll", None)
kqueue: Any = getattr(select, "kqueue", None)
"""``select``'s own; None where the platform lacks it."""


def after_fork_in_child(forget: object) -> None:
    """Have ``forget()`` called in every forked child."""
    os.register_at_fork(after_in_child=forget)  # type: ignore[arg-type]
