"""Tools that know nothing of Dhaga see into dhagas: debugpy stops in them, coverage counts their lines."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.debug.dap import Client

pytestmark = pytest.mark.once

PROGRAM = """\
import dhaga


def work(number):
    dhaga.sleep(0.001)
    doubled = 2 * number
    dhaga.sleep(0.001)
    return doubled


dhagas = [dhaga.spawn(work, number, name=f"worker {number}") for number in range(3)]
print([each.result() for each in dhagas])
"""
LINE = 1 + PROGRAM.splitlines().index("    dhaga.sleep(0.001)", 6)


@contextmanager
def debugged(path: Path) -> Iterator[tuple[Client, subprocess.Popen[str]]]:
    """Run a program under debugpy, and connect a client to it."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    command = [sys.executable, "-Xfrozen_modules=off", "-m", "debugpy", "--listen", str(port), "--wait-for-client"]
    with subprocess.Popen([*command, str(path)], stdout=subprocess.PIPE, text=True) as process:
        try:
            client = Client(port)
            try:
                yield client, process
            finally:
                client.close()
        finally:
            process.kill()


def test_debugpy_stops_in_each_dhaga(tmp_path: Path) -> None:
    pytest.importorskip("debugpy")
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    seen = []
    with debugged(path) as (client, process):
        client.ask("initialize", adapterID="tests", pathFormat="path")
        client.send("attach", justMyCode=True)
        client.event("initialized")
        client.ask("setBreakpoints", source={"path": str(path)}, breakpoints=[{"line": LINE}])
        client.ask("configurationDone")
        for _ in range(3):
            stopped = client.event("stopped")
            assert stopped["reason"] == "breakpoint"
            frames = client.ask("stackTrace", threadId=stopped["threadId"])["stackFrames"]
            assert (frames[0]["name"], frames[0]["line"]) == ("work", LINE)
            found = client.ask("evaluate", expression="(number, doubled)", frameId=frames[0]["id"])
            seen.append(found["result"])
            client.ask("continue", threadId=stopped["threadId"])
        assert process.stdout is not None
        assert process.stdout.readline() == "[0, 2, 4]\n"
    assert seen == ["(0, 0)", "(1, 2)", "(2, 4)"]


def test_coverage_counts_the_lines_of_dhagas(tmp_path: Path) -> None:
    pytest.importorskip("coverage")
    (tmp_path / "program.py").write_text(PROGRAM)
    for words in (["run", "--concurrency=greenlet", "program.py"], ["json", "-o", "lines.json"]):
        subprocess.run([sys.executable, "-m", "coverage", *words], cwd=tmp_path, check=True, capture_output=True)
    found = json.loads((tmp_path / "lines.json").read_text())
    assert found["files"]["program.py"]["missing_lines"] == []


PROFILED = """\
import time
import dhaga


def computes():
    while time.process_time() < 1.5:
        sum(range(1000))
        dhaga.sleep(0)


def waits():
    dhaga.park("until it is woken")


waiter = dhaga.spawn(waits)
dhaga.spawn(computes).join()
waiter.wake()
waiter.join()
"""


def test_py_spy_shows_the_dhaga_that_runs_and_not_the_one_that_is_parked(tmp_path: Path) -> None:
    spy = Path(sys.executable).with_name("py-spy")
    if not spy.exists():
        pytest.skip("py-spy is not installed")
    (tmp_path / "program.py").write_text(PROFILED)
    options = ("record", "--format=raw", "--rate=50", "--output=samples")
    done = subprocess.run(
        [spy, *options, "--", sys.executable, "program.py"],
        cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    if "ermission denied" in done.stdout or "not permitted" in done.stdout:
        pytest.skip("py-spy may not look into processes here")
    assert done.returncode == 0, done.stdout
    counts = {"computes": 0, "waits": 0}
    for line in (tmp_path / "samples").read_text().splitlines():
        for name in counts:
            counts[name] += int(line.rpartition(" ")[2]) if f"{name} (program.py:" in line else 0
    assert counts["computes"] > 10 * counts["waits"]
