"""Requests' own tests, of the version that is installed, with our Session in the place of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import requests

pytestmark = pytest.mark.slow

HERE = Path(__file__).parent
NEEDED = ("httpbin==0.10.4", "pytest-httpbin==2.1.0", "pytest-mock==3.17.0", "brotlicffi", "decorator", "six")
"""What the tests need beyond our own; without their dependencies, since httpbin asks for an old greenlet."""

LEFT_OUT = {
    "tests/test_lowlevel.py::test_use_proxy_from_environment": "uses SOCKS, which a Session refuses",
    "tests/test_requests.py::TestTimeout::test_connect_timeout": "needs an address of the internet that never answers",
    "tests/test_requests.py::TestTimeout::test_total_timeout_connect": "needs an address that never answers",
}

PARTS = (
    ["tests/test_requests.py", "-k", "not stream_timeout and not read_timeout"],
    ["tests/test_requests.py", "-k", "stream_timeout"],
    ["tests/test_requests.py", "-k", "read_timeout"],
    ["tests/test_lowlevel.py"],
    ["tests", "--ignore=tests/test_requests.py", "--ignore=tests/test_lowlevel.py"],
)
"""What runs side by side: most of the time the tests sleep, or wait for a server that does one thing at a time."""

PATIENCE = 100


def pip(*args: object) -> None:
    quiet = ["--quiet", "--disable-pip-version-check", "--no-input", "--no-deps"]
    subprocess.run([sys.executable, "-m", "pip", *map(str, args), *quiet], check=True, capture_output=True, text=True)


def fetch(folder: Path) -> None:
    """Fetch the tests, which are in the source distribution alone, and what they need."""
    pip("download", "--no-binary=requests", "--dest", folder, f"requests=={requests.__version__}")
    with tarfile.open(next(folder.glob("requests-*.tar.gz"))) as archive:
        archive.extractall(folder, filter="data")
    pip("install", "--target", folder / "needed", *NEEDED)


@pytest.fixture(scope="module")
def suite() -> Path:
    """The folder of the tests, beside it what they need; kept with the environment."""
    if given := os.environ.get("DHAGA_REQUESTS_SUITE"):
        return Path(given)
    kept = Path(sys.prefix) / "requests-suite"
    folder = kept / f"requests-{requests.__version__}"
    if not folder.exists():
        incoming = kept / f"incoming-{os.getpid()}"
        try:
            fetch(incoming)
        except subprocess.CalledProcessError as error:
            pytest.skip(f"set DHAGA_REQUESTS_SUITE to the unpacked tests of requests: {error.stderr.strip()[-300:]}")
        (incoming / "needed").rename(incoming / folder.name / "needed")
        (incoming / folder.name).rename(folder)
    return folder


def start(suite: Path, part: list[str], report: Path) -> subprocess.Popen[str]:
    path = [HERE / "requests_suite", suite / "needed", HERE.parents[1]]
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")},
        "PYTHONPATH": os.pathsep.join(map(str, path)),
        "DHAGA_SUITE_REPORT": str(report),
    }
    options = ["-q", "-c", os.devnull, "--rootdir=.", "-p", "substitute", "-p", "no:cacheprovider"]
    options += [f"--deselect={name}" for name in LEFT_OUT]
    command = [sys.executable, "-m", "pytest", *options, *part]
    return subprocess.Popen(
        command, cwd=suite, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )


def test_requests_own_tests_pass_with_our_session(suite: Path, tmp_path: Path) -> None:
    reports = [tmp_path / f"{number}.json" for number in range(len(PARTS))]
    runs = [start(suite, part, report) for part, report in zip(PARTS, reports, strict=True)]
    output = "".join(run.communicate(timeout=PATIENCE)[0] for run in runs)
    outcomes: dict[str, str] = {}
    connections: Counter[str] = Counter()
    for report in reports:
        ended, made = json.loads(report.read_text())
        outcomes.update(ended)
        connections.update(made)
    failed = sorted(name for name, outcome in outcomes.items() if outcome == "failed")
    assert not failed, output
    assert [run.returncode for run in runs] == [0] * len(runs), output
    assert_they_mean_it(Counter(outcomes.values()), connections)


def assert_they_mean_it(outcomes: Counter[str], connections: Counter[Any]) -> None:
    """There are some 600 tests, and all connections were ours."""
    assert outcomes["passed"] > 550 and outcomes["skipped"] < 30, outcomes
    assert set(connections) == {"dhaga.http._client.urllib3_pools"} and connections.total() > 200, connections
