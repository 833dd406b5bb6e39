"""The ``requests`` that everybody knows, on dhagas: a ``Session`` whose connections park where they would block.

Here is what differs; all else is requests' own (``__getattr__``), so that ``from dhaga.http import requests`` is the
one line to change. Nothing is patched: ``Session.mount`` gives each ``HTTPAdapter``, of whatever kind, the pools of
``pools.py``. Nothing is waited for under the locks of cookie jars.
"""

from __future__ import annotations

import os
from typing import Any
from urllib.request import getproxies, getproxies_environment

from ..local import local

try:
    import requests as standard
    from requests.adapters import BaseAdapter, HTTPAdapter
    from requests.auth import HTTPDigestAuth
    from requests.exceptions import InvalidSchema
    from requests.sessions import merge_setting

    from .pools import make_park
except ImportError as error:
    raise ImportError("dhaga.http.Session needs requests: pip install 'dhaga[requests]'") from error

HOSTS = 100
"""To how many hosts a Session keeps connections. requests has 10, too few for a crawler's dhagas; each kept one is an
open file, of which a process usually may have 1,024.
"""

KEPT = 0
"""How many connections to a host are kept: 0, as many as were in use at once, for as long as they are needed (see
``pools.IDLE``). requests keeps 10: with 512 requests in flight it connects anew for 502, and logs a warning each time.
"""


def __getattr__(name: str) -> Any:
    return getattr(standard, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *dir(standard)})


class ProxyManagers(dict[str, Any]):
    """What an adapter keeps of each proxy that it uses."""

    def __setitem__(self, proxy: str, manager: Any) -> None:
        if proxy.lower().startswith("socks"):
            raise InvalidSchema("a SOCKS proxy would block the OS thread: use one for HTTP, or requests.Session")
        make_park(manager)
        super().__setitem__(proxy, manager)


class Session(standard.Session):
    """Requests with shared connections, cookies and settings, for any number of dhagas and OS threads at once.

    Parks: to look a name up (``offload``), to connect, send, receive (``read fd N``, ``write fd N``), between retries
    (``sleep``). A cancel closes the connection; so does ``dhaga.Timeout``, which bounds a request as a whole, while the
    ``timeout`` of requests bounds each wait. Raises: what requests raises, ParkError in coroutines and callbacks.
    Source: ``requests.Session``; but it keeps more connections, closes idle ones at once, and knows no SOCKS.
    """

    def __init__(self) -> None:
        super().__init__()
        for scheme in ("https://", "http://"):
            self.mount(scheme, HTTPAdapter(HOSTS, KEPT))

    def mount(self, prefix: str | bytes, adapter: BaseAdapter) -> None:
        """Use an adapter for the URLs that begin with ``prefix``. Its connections will park from now on."""
        make_adapter_park(adapter)
        super().mount(prefix, adapter)

    def prepare_request(self, request: standard.Request) -> standard.PreparedRequest:
        """Merge a request with the session's settings. Each dhaga learns for itself what a digest has to contain."""
        for auth in (request.auth, self.auth):
            if isinstance(auth, HTTPDigestAuth):
                learn_in_dhagas(auth)
        return super().prepare_request(request)

    def merge_environment_settings(self, url: Any, proxies: Any, stream: Any, verify: Any, cert: Any) -> Any:
        """Do what requests does, without looking for proxies where there are none: a fifth of a request's cost."""
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
            make_adapter_park(adapter)


def environment_may_name_proxies() -> bool:
    """Tell whether to look for proxies at all: four times as fast as to look for them, which requests does twice."""
    return getproxies is not getproxies_environment or any(name[-6:].lower() == b"_proxy" for name in os.environb)


def learn_in_dhagas(auth: Any) -> None:
    """Have what a digest authentication knows of a server kept by dhaga, instead of by OS thread."""
    if not isinstance(auth._thread_local, local):
        auth._thread_local = local()


def make_adapter_park(adapter: Any) -> None:
    """Give an adapter, and the proxies that it comes to use, our pools."""
    if isinstance(adapter, HTTPAdapter):
        make_park(adapter.poolmanager)
        if not isinstance(adapter.proxy_manager, ProxyManagers):
            adapter.proxy_manager = ProxyManagers()


# ---- the short ways

session = Session


def request(method: str, url: str, **options: Any) -> standard.Response:
    """Make one request, over a connection of its own, as do the others. Source: ``requests.request``, with its options.

    Parks: as ``Session``.
    """
    with Session() as session:
        return session.request(method, url, **options)


def get(url: str, params: Any = None, **options: Any) -> standard.Response:
    """Fetch a page."""
    return request("get", url, params=params, **options)


def options(url: str, **options: Any) -> standard.Response:
    """Ask what may be done with a page."""
    return request("options", url, **options)


def head(url: str, **options: Any) -> standard.Response:
    """Fetch the headers of a page; redirects are not followed."""
    return request("head", url, **{"allow_redirects": False, **options})


def post(url: str, data: Any = None, json: Any = None, **options: Any) -> standard.Response:
    """Send data."""
    return request("post", url, data=data, json=json, **options)


def put(url: str, data: Any = None, **options: Any) -> standard.Response:
    """Send a page."""
    return request("put", url, data=data, **options)


def patch(url: str, data: Any = None, **options: Any) -> standard.Response:
    """Send a change of a page."""
    return request("patch", url, data=data, **options)


def delete(url: str, **options: Any) -> standard.Response:
    """Delete a page."""
    return request("delete", url, **options)
