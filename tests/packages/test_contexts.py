"""Code that compat starts sees no more of its starter's state than with gevent and eventlet themselves."""

from __future__ import annotations

import importlib.util

import pytest

from tests.kit.contexts import IN_THE_CONTEXT, Table, exposes, table

SETTINGS = {"EVENTLET_NO_GREENDNS": "yes", "EVENTLET_THREADPOOL_SIZE": "1", "PYTHONWARNINGS": "ignore"}


@pytest.mark.parametrize("package", ["gevent", "eventlet"])
def test_compat_shows_no_more_than_the_original(package: str) -> None:
    if importlib.util.find_spec(package) is None:
        pytest.skip(f"{package} is not installed")
    theirs = table(f"{package}s", **SETTINGS)
    ours = table(f"{package}s", "-m", "dhaga", "--as", package, **SETTINGS)
    assert theirs.keys() == ours.keys()
    for way, by_user in ours.items():
        # Callbacks run on the hub, which has the thread-locals of main code.
        for state in IN_THE_CONTEXT if way.startswith("hub:") else by_user["alice"]:
            assert exposes(ours, way, state) <= allowed(theirs, way, state), (way, state)


def allowed(theirs: Table, way: str, state: str) -> set[str]:
    """Return what may be seen: as with the original, or nothing where that shows another user's."""
    exposed = exposes(theirs, way, state)
    return exposed | {"nothing"} if "another's" in exposed else exposed
