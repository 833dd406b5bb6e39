"""The program as its users start it: each way, both kinds of upstreams, its files, and what it refuses."""

from __future__ import annotations

import errno
import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from benchmarks.rate_model import __main__ as rate_model
from benchmarks.rate_model.rows import QUICK, ROWS
from benchmarks.rate_model.run import Plan
from benchmarks.rate_model.runner import at_once, in_turn

pytestmark = pytest.mark.once
HANGS = ["--latency", "20ms*9,30s", "--window", "100ms", "--tail", "5s"]


def test_a_run_prints_its_tables_and_writes_its_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["--name", "try", "--rate", "100", "--num-requests", "30", *HANGS, "--output", str(tmp_path / "new")]
    assert rate_model.main([*asked, "dhagas"]) == 0
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == ["try-latency.svg", "try-rate.svg", "try.json"]
    kept = json.loads((tmp_path / "new" / "try.json").read_text())
    found = kept["figures"]
    assert (kept["way"], found["arrivals"], found["answered"], found["hung"]) == ("dhagas", 30, 27, 3)
    assert len(found["added"]) == len(kept["percents"])
    assert found["memory"]["peak"] >= found["memory"]["before"] > 0
    assert "100/s, 20ms*9,30s" in capsys.readouterr().out


def test_every_way_accounts_for_every_request() -> None:
    ways = ["threads", "dhagas", "asyncio"]
    plan = Plan(100, 20, [0.01] * 3 + [30.0], tail=5)
    for each in at_once(ways, [plan], window=0.1).values():
        assert (each[0]["answered"], each[0]["hung"], each[0]["overdue"]) == (15, 5, 0)


def test_gevent_accounts_for_every_request() -> None:
    pytest.importorskip("gevent")
    found = in_turn(["gevent"], Plan(100, 20, [0.01] * 3 + [30.0], tail=5), window=0.1)["gevent"]
    assert (found["answered"], found["hung"], found["overdue"]) == (15, 5, 0)


def test_a_refused_connection_is_a_failed_request_and_the_run_goes_on() -> None:
    for each in at_once(["threads", "dhagas", "asyncio"], [Plan(100, 10, [0.01], ports=[1], tail=5)], 0.1).values():
        assert (each[0]["failed"], each[0]["answered"]) == (10, 0)
        assert f"[Errno {errno.ECONNREFUSED}]" in each[0]["why failed"][0]


def test_a_pool_of_threads_is_full_once_each_has_met_the_upstream_that_hangs() -> None:
    plan = Plan(400, 200, [0.001, 30.0], threads=10, tail=0.1)
    found = in_turn(["threads"], plan, window=0.1)["threads"]
    assert found["answered"] <= 19  # ten requests that hang, and those between them
    assert found["answered"] + found["hung"] + found["overdue"] == 200


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        ([], "required"),
        (["coroutines"], "invalid choice"),
        (["--latency", "20", "dhagas"], "'20' is not a duration"),
        (["--latency", "20ms*", "dhagas"], "how many upstreams"),
        (["--rate", "0", "dhagas"], "--rate"),
        (["--rate", "nan", "dhagas"], "--rate"),
        (["--num-requests", "1.5", "dhagas"], "--num-requests"),
        (["--num-requests", "10", "dhagas"], "--window"),
        (["--window", "0s", "dhagas"], "--window"),
        (["--name", "a/b", "dhagas"], "name of a file"),
        (["--output", __file__, "dhagas"], "not a folder"),
        (["--real", "--latency", "1ms*101", "dhagas"], "up to 100"),
        (["threads", "--threads", "0"], "--threads"),
        (["dhagas", "--threads", "5"], "unrecognized"),
    ],
)
def test_bad_input_is_told_at_once(arguments: list[str], word: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        rate_model.main(arguments)
    assert ended.value.code == 2
    assert word in capsys.readouterr().err


def test_a_run_that_fails_ends_with_its_words_and_status_1(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("benchmarks.rate_model.options.find_spec", lambda name: True)
    monkeypatch.setattr("benchmarks.rate_model.runner.sys.executable", "/bin/false")
    assert rate_model.main(["--output", str(tmp_path), "gevent"]) == 1
    assert capsys.readouterr().err == "rate_model: gevent: exit status 1\n"


@pytest.mark.slow
def test_an_interrupt_leaves_no_process(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "benchmarks.rate_model", "--real", "--output", str(tmp_path), "dhagas"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, process_group=0) as process:
        family = children_of(process.pid, at_least=2)
        process.send_signal(signal.SIGINT)
        out = process.communicate(timeout=20)[0]
    assert (process.returncode, out) == (130, b"")
    until = time.monotonic() + 10
    while any(Path(f"/proc/{pid}").exists() for pid in family) and time.monotonic() < until:
        time.sleep(0.01)
    assert [pid for pid in family if Path(f"/proc/{pid}").exists()] == []


def children_of(pid: int, at_least: int) -> list[int]:
    """Wait until a process has children, and return them."""
    place = Path(f"/proc/{pid}/task/{pid}/children")
    if not place.exists():
        pytest.skip("the system does not tell which children a process has")
    until = time.monotonic() + 20
    while len(found := place.read_text().split()) < at_least:
        assert time.monotonic() < until
        time.sleep(0.01)
    return list(map(int, found))


def test_the_rows_hold_every_rate_and_latency_that_was_published() -> None:
    modelled = {(row.rate, row.latency) for row in ROWS if not row.real}
    assert modelled == {(rate, each) for rate in (1000, 2000, 10_000) for each in ("20ms*10", "60ms*10", "20ms*9,30s")}
    assert all(row.plan(QUICK).count == row.rate * QUICK.fewer for row in ROWS)
