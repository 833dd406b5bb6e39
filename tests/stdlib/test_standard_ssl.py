"""The suite of the running Python for ``ssl``, against ours: with the OS threads that it makes, and with dhagas.

It is loaded as a copy that finds our modules where it imports the standard's. It runs with dhagas in the place of
threads, on the virtual clock, and the longest of it with threads, too. Left out are its tests of enumerations and of
TLS in memory, which are the standard's own, and those that ask for servers on the Internet.
"""

from __future__ import annotations

import contextlib
import importlib.util
import sys
import types
import unittest
import warnings
from collections.abc import Iterator
from typing import Any
from unittest import mock

import pytest

import dhaga.select
import dhaga.socket
import dhaga.ssl
import dhaga.threading
import dhaga.time
from dhaga.testing import virtual_clock

WHY_NOT = "this interpreter ships without the package `test`"
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    standard = pytest.importorskip("test.test_ssl", reason=WHY_NOT)

SUITES = {
    "threads": ("ThreadedTests", "TestPreHandshakeClose"),
    "dhagas": (
        *("BasicSocketTests", "ContextTests", "SSLErrorTests", "SimpleBackgroundTests", "ThreadedTests"),
        *("TestPostHandshakeAuth", "TestSSLDebug", "TestPreHandshakeClose"),
    ),
}
MARKS = {"threads": pytest.mark.slow, "dhagas": pytest.mark.once}
"""On the virtual clock all take 3 s, with threads those two 25: their servers wait for what times out."""

NOT_TRIED = {
    "dhagas ThreadedTests test_asyncore_server": "its server polls with the standard select, in a loop",
    "dhagas ThreadedTests test_got_eof": "it reads from the compiled object below, which never blocks in ours",
}
"""Why a test is left out, by "mode suite test"; all others must pass."""


def load(instead: dict[str, Any]) -> types.ModuleType:
    """Return a fresh copy of ``test.test_ssl`` for which the modules named in ``instead`` are others."""
    spec = importlib.util.spec_from_file_location("copy of test_ssl", standard.__file__)
    assert spec is not None and spec.loader is not None
    copy = importlib.util.module_from_spec(spec)
    with mock.patch.dict(sys.modules, instead):
        spec.loader.exec_module(copy)
    return copy


OURS: dict[str, Any] = {"ssl": dhaga.ssl, "socket": dhaga.socket, "select": dhaga.select}
DHAGAS: dict[str, Any] = {"threading": dhaga.threading, "time": dhaga.time}


def cases() -> Iterator[Any]:
    for mode in SUITES:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            module = load(OURS | DHAGAS if mode == "dhagas" else OURS)
        for suite in SUITES[mode]:
            kind = getattr(module, suite, None)  # some are not there on every Python
            for test in unittest.defaultTestLoader.getTestCaseNames(kind) if kind else ():
                reason = NOT_TRIED.get(f"{mode} {suite} {test}")
                marks = [MARKS[mode], *([pytest.mark.xfail(reason=reason, run=False)] if reason else [])]
                yield pytest.param(mode, kind, test, id=f"{mode}-{suite}-{test}", marks=marks)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("mode", "kind", "test"), [*cases()])
def test_standard(mode: str, kind: type[unittest.TestCase], test: str) -> None:
    result = unittest.TestResult()
    with virtual_clock() if mode == "dhagas" else contextlib.nullcontext():
        kind(test).run(result)
    if result.skipped:
        pytest.skip(result.skipped[0][1])
    problems = [text for _, text in result.failures + result.errors]
    assert not problems, problems[0]
