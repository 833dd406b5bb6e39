"""The ``requests`` library for dhagas: a ``Session`` whose connections park where they would block.

This module has only the differences; the other names are requests' own (``__getattr__``), so that a program changes one
line: ``from dhaga.http import requests``. Nothing is patched: ``Session.mount`` gives each ``HTTPAdapter``, including
subclasses, the pools of ``_client.urllib3_pools``. The locks of cookie jars stay standard: no code waits under them.
"""

from __future__ import annotations

import os
from typing import Any
from urllib.request import getproxies, getproxies_environment

from .._sync.local import local

try:
    import requests as standard
    from requests.adapters import BaseAdapter, HTTPAdapter
    from requests.auth import HTTPDigestAuth
    from requests.exceptions import InvalidSchema
    from requests.sessions import merge_setting

    from ._client.urllib3_pools import use_parking_pools
except ImportError as error:
    raise ImportError("dhaga.http.Session needs requests: pip install 'dhaga[requests]'") from error

POOL_HOSTS = 100
"""Number of hosts to which a Session keeps connections.

requests has 10, which is too few for a crawler. Each kept connection is an open file, and a process may usually have
1,024.
"""

POOL_MAXSIZE = 0
"""Connections kept per host: 0 keeps as many as were in use at once, until they are stale (``IDLE_SECONDS``).

requests keeps 10: with 512 requests in flight it reconnects for 502 of them, and logs a warning each time.
"""


def __getattr__(name: str) -> Any:
    return getattr(standard, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *dir(standard)})


class ProxyManagers(dict[str, Any]):
    """An adapter's pool managers, by proxy."""

    def __setitem__(self, proxy: str, manager: Any) -> None:
        if proxy.lower().startswith("socks"):
            raise InvalidSchema("a SOCKS proxy would block the OS thread: use an HTTP proxy, or requests.Session")
        use_parking_pools(manager)
        super().__setitem__(proxy, manager)


class Session(standard.Session):
    """Requests with shared connections, cookies and settings, for any number of dhagas and OS threads at once.

    Parks: for a name lookup (``offload``), to connect, send, receive (``read fd N``, ``write fd N``), between retries
    (``sleep``). A cancel closes the connection; so does ``dhaga.Timeout``, which bounds a whole request, whereas the
    ``timeout`` of requests bounds each wait. Raises: requests' errors, ParkError in coroutines and callbacks.
    Source: ``requests.Session``; but it keeps more connections, closes idle ones, and does not support SOCKS.
    """

    def __init__(self) -> None:
        super().__init__()
        for scheme in ("https://", "http://"):
            self.mount(scheme, HTTPAdapter(POOL_HOSTS, POOL_MAXSIZE))

    def mount(self, prefix: str | bytes, adapter: BaseAdapter) -> None:
        """Use an adapter for URLs that begin with ``prefix``. Its connections park from now on."""
        use_parking_pools_of(adapter)
        super().mount(prefix, adapter)

    def prepare_request(self, request: standard.Request) -> standard.PreparedRequest:
        """Merge a request with the session's settings. The state of a digest authentication is kept per dhaga."""
        for auth in (request.auth, self.auth):
            if isinstance(auth, HTTPDigestAuth):
                keep_digest_state_per_dhaga(auth)
        return super().prepare_request(request)

    def merge_environment_settings(self, url: Any, proxies: Any, stream: Any, verify: Any, cert: Any) -> Any:
        """Merge as requests does, but skip the search for proxies where possible: it is a fifth of a request's cost."""
        if self.trust_env and environment_may_name_proxies():
            return super().merge_environment_settings(url, proxies, stream, verify, cert)
        if self.trust_env and (verify is None or verify is True):
            verify = os.environ.get("REQUESTS_CA_BUNDLE") or os.environ.get("CURL_CA_BUNDLE") or verify
        return {
            "proxies": merge_setting(proxies, self.proxies) if proxies or self.proxies else {},  # type: ignore[no-untyped-call]
            "stream": self.stream if stream is None else stream,
            "verify": self.verify if verify is None else verify,
            "cert": self.cert if cert is None else cert,
        }

    def __setstate__(self, state: Any) -> None:
        super().__setstate__(state)  # type: ignore[misc]
        for adapter in self.adapters.values():
            use_parking_pools_of(adapter)


def environment_may_name_proxies() -> bool:
    """Return whether to search for proxies. This check takes a quarter of the time of a search, and requests would
    search twice.
    """
    return getproxies is not getproxies_environment or any(name[-6:].lower() == b"_proxy" for name in os.environb)


def keep_digest_state_per_dhaga(auth: Any) -> None:
    """Keep the state of a digest authentication per dhaga, instead of per OS thread."""
    if not isinstance(auth._thread_local, local):
        auth._thread_local = local()


def use_parking_pools_of(adapter: Any) -> None:
    """Give an adapter our pools, for hosts and for proxies."""
    if isinstance(adapter, HTTPAdapter):
        use_parking_pools(adapter.poolmanager)
        if not isinstance(adapter.proxy_manager, ProxyManagers):
            adapter.proxy_manager = ProxyManagers()


# ---- one-call functions

session = Session


def request(method: str, url: str, **options: Any) -> standard.Response:
    """Make one request over a new connection. Source: ``requests.request``, with its options.

    Parks: as ``Session``, like the functions below.
    """
    with Session() as session:
        return session.request(method, url, **options)


def get(url: str, params: Any = None, **options: Any) -> standard.Response:
    """GET a URL."""
    return request("get", url, params=params, **options)


def options(url: str, **options: Any) -> standard.Response:
    """Request the options of a URL."""
    return request("options", url, **options)


def head(url: str, **options: Any) -> standard.Response:
    """Request the headers of a URL; redirects are not followed."""
    return request("head", url, **{"allow_redirects": False, **options})


def post(url: str, data: Any = None, json: Any = None, **options: Any) -> standard.Response:
    """POST data."""
    return request("post", url, data=data, json=json, **options)


def put(url: str, data: Any = None, **options: Any) -> standard.Response:
    """PUT data."""
    return request("put", url, data=data, **options)


def patch(url: str, data: Any = None, **options: Any) -> standard.Response:
    """PATCH data."""
    return request("patch", url, data=data, **options)


def delete(url: str, **options: Any) -> standard.Response:
    """DELETE a URL."""
    return request("delete", url, **options)
