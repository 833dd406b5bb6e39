"""The ``requests`` library for dhagas: a ``Session`` whose connections park where they would block.

A program changes one line: ``from dhaga.http import requests``. This module defines only the names that differ, and
``__getattr__`` returns all other names from the ``requests`` package. The package is not patched. Submodules, such as
``requests.exceptions``, are imported under their own names. ``Session.mount`` gives each ``HTTPAdapter``, including
subclasses, the connection pools of ``_client.urllib3_pools``. The locks of cookie jars remain standard locks, because
no code waits while it holds such a lock.
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
"""Maximum number of hosts to which a Session keeps connections.

The default of the package, 10 hosts, is too low for a crawler. Each kept connection is an open file, and a process can
usually open 1,024 files.
"""

POOL_MAXSIZE = 0
"""Maximum number of connections kept per host; 0 means no limit. A pool closes a connection that has been idle for
``urllib3_pools.IDLE_SECONDS``.

The default of the package is 10 connections. With this default and 512 concurrent requests, the package reconnects for
502 of the requests, and logs a warning each time.
"""


def __getattr__(name: str) -> Any:
    if name == "__path__":  # this attribute would make the module a package, and imports would run submodules again
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(standard, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *dir(standard)})


class ProxyManagers(dict[str, Any]):
    """The pool managers of an adapter, by the URL of the proxy."""

    def __setitem__(self, proxy: str, manager: Any) -> None:
        if proxy.lower().startswith("socks"):
            raise InvalidSchema("a SOCKS proxy would block the OS thread: use an HTTP proxy, or requests.Session")
        use_parking_pools(manager)
        super().__setitem__(proxy, manager)


class Session(standard.Session):
    """A session that any number of dhagas and OS threads can use at once. They share connections, cookies and settings.

    A cancel or a ``dhaga.Timeout`` closes the connection of the interrupted request. ``dhaga.Timeout`` limits a whole
    request, and the argument ``timeout`` limits each wait.

    Parks: to look up a name (``offload``), to connect, send and receive (``read fd N``, ``write fd N``), and between
    retries (``sleep``). Raises: requests' errors; ParkError in coroutines and callbacks. Source: ``requests.Session``,
    with three differences: more kept connections, a time limit for idle connections, and no support for SOCKS.
    """

    def __init__(self) -> None:
        super().__init__()
        for scheme in ("https://", "http://"):
            self.mount(scheme, HTTPAdapter(POOL_HOSTS, POOL_MAXSIZE))

    def mount(self, prefix: str | bytes, adapter: BaseAdapter) -> None:
        """Use an adapter for URLs that begin with ``prefix``. The adapter's connections park from now on."""
        use_parking_pools_of(adapter)
        super().mount(prefix, adapter)

    def prepare_request(self, request: standard.Request) -> standard.PreparedRequest:
        """Merge a request with the session's settings. A digest authentication then keeps its state per dhaga."""
        for auth in (request.auth, self.auth):
            if isinstance(auth, HTTPDigestAuth):
                keep_digest_state_per_dhaga(auth)
        return super().prepare_request(request)

    def merge_environment_settings(self, url: Any, proxies: Any, stream: Any, verify: Any, cert: Any) -> Any:
        """Merge a request's settings with the session's and the environment's, as the ``requests`` package does.

        The search for proxies takes a fifth of a request's time, so it is skipped where it cannot find a proxy.
        """
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
    """Return whether the package's search for proxies could find a proxy.

    This check takes a quarter of the time of a search, and the package would search twice per request.
    """
    return getproxies is not getproxies_environment or any(name[-6:].lower() == b"_proxy" for name in os.environb)


def keep_digest_state_per_dhaga(auth: Any) -> None:
    """Make a digest authentication keep its state per dhaga instead of per OS thread."""
    if not isinstance(auth._thread_local, local):
        auth._thread_local = local()


def use_parking_pools_of(adapter: Any) -> None:
    """Replace an adapter's connection pools, for hosts and for proxies, with pools that park."""
    if isinstance(adapter, HTTPAdapter):
        use_parking_pools(adapter.poolmanager)
        if not isinstance(adapter.proxy_manager, ProxyManagers):
            adapter.proxy_manager = ProxyManagers()


# ---- one-call functions

session = Session


def request(method: str, url: str, **options: Any) -> standard.Response:
    """Send one request over a new connection, and return the response.

    The functions below call this function. Parks: as ``Session`` does.
    Source: ``requests.request``, including its options.
    """
    with Session() as session:
        return session.request(method, url, **options)


def get(url: str, params: Any = None, **options: Any) -> standard.Response:
    """Send a GET request to a URL."""
    return request("get", url, params=params, **options)


def options(url: str, **options: Any) -> standard.Response:
    """Send an OPTIONS request to a URL."""
    return request("options", url, **options)


def head(url: str, **options: Any) -> standard.Response:
    """Send a HEAD request to a URL. Redirects are not followed."""
    return request("head", url, **{"allow_redirects": False, **options})


def post(url: str, data: Any = None, json: Any = None, **options: Any) -> standard.Response:
    """Send data to a URL in a POST request."""
    return request("post", url, data=data, json=json, **options)


def put(url: str, data: Any = None, **options: Any) -> standard.Response:
    """Send data to a URL in a PUT request."""
    return request("put", url, data=data, **options)


def patch(url: str, data: Any = None, **options: Any) -> standard.Response:
    """Send data to a URL in a PATCH request."""
    return request("patch", url, data=data, **options)


def delete(url: str, **options: Any) -> standard.Response:
    """Send a DELETE request to a URL."""
    return request("delete", url, **options)
