"""An SSLContext for gevent and eventlet, from the arguments of ``ssl.wrap_socket``, which Python 3.12 removed."""

from __future__ import annotations

from typing import Any

from ... import ssl


def new_context(
    protocol: Any,
    keyfile: Any = None,
    certfile: Any = None,
    cert_reqs: Any = None,
    ca_certs: Any = None,
    ciphers: str | None = None,
) -> Any:
    """Return a context that does not check host names. It checks certificates only if ``cert_reqs`` requires it."""
    context = ssl.SSLContext(protocol)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE if cert_reqs is None else cert_reqs
    if ca_certs:
        context.load_verify_locations(ca_certs)
    if certfile:
        context.load_cert_chain(certfile, keyfile)
    if ciphers:
        context.set_ciphers(ciphers)
    return context
