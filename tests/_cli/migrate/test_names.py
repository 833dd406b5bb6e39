"""The table of counterparts: each name of the libraries has one, and each of Dhaga's that it names is there."""

from __future__ import annotations

import pkgutil
import re

import pytest

import dhaga
from dhaga._cli.migrate import names
from dhaga._cli.migrate.names import ALIKE, DIFFERS, FACES, OWN, RAISING, counterpart_of, not_imitated
from dhaga._cli.migrate.uses import public_names
from dhaga._counterparts import COUNTERPARTS


def test_each_name_of_dhaga_in_the_tables_is_there() -> None:
    pytest.importorskip("psycopg2")  # whose integration is among them
    texts = [*OWN.values(), *DIFFERS.values(), *names.LIBRARIES.values()]
    found = {path for text in texts for path in re.findall(r"\bdhaga(?:\.[A-Za-z_]\w*)+", text)}
    assert len(found) > 30
    for path in found:
        assert pkgutil.resolve_name(path) is not None, path
    assert FACES.items() <= OWN.items()


@pytest.mark.parametrize(
    "module",
    ["gevent", "gevent.event", "gevent.exceptions", "gevent.lock", "gevent.monkey", "gevent.pool", "gevent.pywsgi",
     "gevent.queue", "gevent.server", "gevent.threadpool", "gevent.timeout", "eventlet", "eventlet.event",
     "eventlet.greenpool", "eventlet.greenthread", "eventlet.hubs", "eventlet.patcher", "eventlet.queue",
     "eventlet.semaphore", "eventlet.tpool", "eventlet.wsgi"],
)  # fmt: skip
def test_each_public_name_that_as_has_has_a_counterpart(module: str) -> None:
    found = public_names(module)
    assert found
    assert [name for name in found if counterpart_of(f"{module}.{name}").text in ("", "dhaga")] == []


def test_the_counterpart_of_a_bare_name_is_that_of_the_error_of_dhaga() -> None:
    for name in ("joinall", "killall", "iwait", "with_timeout", "get_hub", "Greenlet"):
        text = counterpart_of(f"gevent.{name}").text
        assert text == COUNTERPARTS[name][1]
        with pytest.raises(AttributeError, match=re.escape(text)):
            getattr(dhaga, name)


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("gevent.spawn", "dhaga.spawn"),
        ("gevent.Timeout.start_new", "dhaga.Timeout"),
        ("gevent.socket.socket.recv", "dhaga.socket.socket"),
        ("gevent.pool.Pool.imap", COUNTERPARTS["imap"][1]),
        ("eventlet.green.zmq", names.GREEN),
        ("eventlet.event.Event", names.FUTURE),
        ("gevent.event.Event", "dhaga.threading.Event"),
        ("threading.Thread", "dhaga.threading.Thread"),
        ("gevent.no_such_thing", names.NONE),
        ("psycogreen.gevent.patch_psycopg", names.LIBRARIES["psycogreen"]),
    ],
)
def test_a_path_has_the_counterpart_of_its_longest_known_part(path: str, text: str) -> None:
    assert counterpart_of(path).text == text


def test_what_differs_is_told_for_names_that_are_alike() -> None:
    assert set(ALIKE.values()) <= DIFFERS.keys()
    assert counterpart_of("eventlet.spawn_n").differs == counterpart_of("gevent.spawn").differs != ""
    assert counterpart_of("eventlet.event.Event").differs != counterpart_of("gevent.event.Event").differs
    assert counterpart_of("threading.Event").differs == ""


@pytest.mark.parametrize(
    ("path", "missing"),
    [
        ("gevent", False),
        ("gevent.pool.Pool.map", False),
        ("gevent.socket.AF_INET", False),
        ("eventlet.green.urllib.request", False),
        ("eventlet.wsgi.server", False),
        ("gevent.resolver.ares", True),
        ("eventlet.dagpool", True),
        ("eventlet.green.zmq", True),
        ("gevent.nonsense", True),
        ("threading.Thread", False),
    ],
)
def test_what_as_has_is_told_from_the_package_itself(path: str, missing: bool) -> None:
    assert not_imitated(path) == (f"there is no {path}" if missing else "")


@pytest.mark.parametrize("path", RAISING)
def test_what_is_refused_is_there_and_says_so(path: str) -> None:
    assert callable(pkgutil.resolve_name(f"dhaga.compat.{path}"))
    assert not_imitated(path) == f"{path}: it raises NotImplementedError"
