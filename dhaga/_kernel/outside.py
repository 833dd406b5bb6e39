"""Calls to the operating system that a simulation replaces (the *doors*). Besides these names, a simulation sets only
hooks of Dhaga, such as ``dhaga.excepthook``.

| door                    | called by, and when                                       | in a simulation               |
|-------------------------|-----------------------------------------------------------|-------------------------------|
| ``names_of_caller``     | ``_iowait/dns``, for the functions that look names up in  | ``network/_names``            |
|                         | the caller's OS thread; None: the real ones               |                               |
| ``new_socket``          | each new ``dhaga.socket``: returns the arguments to use;  | ``network/_sockets``          |
|                         | None: the caller's arguments                              |                               |
| ``sockets``             | ``dhaga.socket``, for the class whose methods receive, or | ``network/_sockets``          |
|                         | use addresses or options; real: ``_socket.socket``        |                               |
| ``open_file``           | ``dhaga.io``, for the file objects that do not park       | ``disk/_files``               |
| ``offloaded_file``      | ``_iowait/offloaded_file``, for the class of raw files;   | ``disk/_files``               |
|                         | None: ``OffloadedFile``                                   |                               |
| ``pool_thread``         | ``_workers/worker_threads``, for the class of the threads | ``_standard/offload``         |
|                         | that make a caller's calls; None: ``WorkerThread``        |                               |
| ``next_scope``          | ``_structured/scope``, for the number of a new scope      | counts from 1                 |

A simulation runs in one OS thread. Calls from other OS threads, and calls for objects that are not simulated, still
reach the operating system. The compiled functions call no door. In Python, the door ``sockets`` costs ``socket.recv``
one more attribute lookup.
"""

from __future__ import annotations

import _socket
import builtins
import itertools
from collections.abc import Callable
from typing import IO, Any

names_of_caller: Callable[[], Any] | None = None

new_socket: Callable[..., tuple[int, int, int, int | None]] | None = None

sockets: type[_socket.socket] = _socket.socket

open_file: Callable[..., IO[Any]] = builtins.open

offloaded_file: type[Any] | None = None

pool_thread: Callable[[Any], type[Any] | None] | None = None

next_scope: Callable[[], int] = itertools.count(1).__next__
