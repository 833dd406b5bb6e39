"""``eventlet.green.ssl``: ``dhaga.ssl``, with the function ``wrap_socket`` that Python 3.12 removed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .... import ssl as ours
from ...._kernel.faces.stdlib_face import fall_back_to
from ..convenience import wrap_ssl

__getattr__: Callable[[str], Any]
__dir__: Callable[[], list[str]]
__getattr__, __dir__ = fall_back_to(ours, globals())
wrap_socket = wrap_ssl
GreenSSLSocket = ours.SSLSocket
