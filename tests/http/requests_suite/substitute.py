"""A plugin for requests' own tests: each runs in a dhaga, with our Session in the place of requests' own.

It writes down how each test ended, and whose connections were made, which the audit events of both tell.
"""

from __future__ import annotations

import json
import os
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import requests

import dhaga
from dhaga.http import Session

requests.Session = requests.sessions.Session = requests.session = requests.sessions.session = Session

outcomes: dict[str, str] = {}
connections: Counter[str] = Counter()


def count_connections(event: str, args: tuple[Any, ...]) -> None:
    if event == "http.client.connect":
        connections[type(args[0]).__module__] += 1


sys.addaudithook(count_connections)


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: Any) -> bool:
    arguments = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}
    dhaga.spawn(lambda: pyfuncitem.obj(**arguments)).result()
    return True


def pytest_runtest_logreport(report: Any) -> None:
    if report.when == "call" or report.outcome != "passed":
        outcomes[report.nodeid] = report.outcome


def pytest_sessionfinish() -> None:
    Path(os.environ["DHAGA_SUITE_REPORT"]).write_text(json.dumps([outcomes, connections]))
