"""The snapshot: all schedulers and dhagas at one moment, other threads among them."""

from __future__ import annotations

import json
import time
from dataclasses import asdict
from threading import Event as StandardEvent

import pytest

import dhaga
from dhaga import debug, queue
from dhaga.debug._dhaga_table import DhagaTable, all_rows
from dhaga.debug._dump import duration, text_of
from dhaga.testing import settle, virtual_clock


def test_other_schedulers_are_looked_at_in_their_threads() -> None:
    jobs: queue.Queue[None] = queue.Queue()
    with dhaga.Scheduler(name="io") as io:
        getter = io.spawn(lambda: jobs.get(), name="getter")  # a frame of Python, as jobs.get may be compiled
        while getter.state != "WAITING":
            time.sleep(0.001)
        view = next(each for each in debug.snapshot(patience=30).schedulers if each.name == "io")
        jobs.put(None)
        getter.join()
    assert (view.life, view.held) == ("own thread", False)
    assert [(each.name, each.reason, bool(each.stack)) for each in view.dhagas] == [("getter", "queue.get", True)]


def test_a_held_scheduler_is_looked_at_from_outside() -> None:
    began, end = StandardEvent(), StandardEvent()

    def hold() -> None:
        began.set()
        end.wait()  # blocks the OS thread

    with dhaga.Scheduler(name="io") as io:
        holder = io.spawn(hold, name="holder")
        began.wait()
        view = next(each for each in debug.snapshot(patience=0.01).schedulers if each.name == "io")
        end.set()
        holder.join()
    assert view.held
    assert "hold" in [frame.function for frame in view.stack]
    assert [(each.name, each.state) for each in view.dhagas] == [("holder", "RUNNING")]


@pytest.mark.skipif(not hasattr(time, "pthread_getcpuclockid"), reason="the platform does not tell")
def test_the_cpu_time_of_each_os_thread_is_shown_also_of_one_that_is_held() -> None:
    began, end = StandardEvent(), StandardEvent()

    def compute_and_hold() -> None:
        while time.thread_time() < 0.06:
            pass
        began.set()
        end.wait()

    with dhaga.Scheduler(name="busy") as busy, dhaga.Scheduler(name="idle"):
        holder = busy.spawn(compute_and_hold)
        began.wait()
        looked = debug.snapshot(patience=0.01)
        seconds = {each.name: each.cpu_seconds for each in looked.schedulers}
        table = dict(DhagaTable().table()["threads"])
        end.set()
        holder.join()
    assert seconds["busy"] is not None and seconds["idle"] is not None
    assert seconds["idle"] < 0.06 <= seconds["busy"] <= table["busy"]
    (line,) = [line for line in text_of(looked).splitlines() if line.startswith("scheduler busy")]
    assert line.endswith(f", {duration(seconds['busy'])} of CPU time")


@pytest.mark.parametrize(
    ("holder", "main", "other"),
    [
        ("a dhaga", "RUNNABLE", "RUNNING"),
        ("a dhaga that is joined", "WAITING", "RUNNING"),
        ("main code", "RUNNING", "NEW"),
        ("the hub", "WAITING", "NEW"),
    ],
)
def test_of_a_held_scheduler_one_runs_at_most(holder: str, main: str, other: str) -> None:
    """Seen from another OS thread, whoever holds that of the main code in C."""
    looked = StandardEvent()
    views: list[debug.SchedulerView] = []
    tables: list[dict[str, str]] = []

    def hold() -> None:
        watcher = dhaga._kernel.originals.Thread(target=look)
        watcher.start()
        looked.wait()
        watcher.join()

    def look() -> None:
        views.extend(each for each in debug.snapshot(patience=0.01).schedulers if each.name == "virtual")
        tables.append({row.name: row.state for row in all_rows({}) if row.scheduler == "virtual"})
        looked.set()

    with virtual_clock():
        holding = dhaga.spawn(hold if holder.startswith("a dhaga") else int, name="holder")
        if holder == "main code":
            hold()
        if holder == "the hub":
            dhaga.current().scheduler.loop.call_soon(hold)
        if holder == "a dhaga":
            dhaga.sleep(0)
        holding.join()
        (view,) = views
        states = {each.name: each.state for each in view.dhagas}
        assert view.held and states == {"main code": main, "holder": other}
        assert tables == [states]


def test_a_plain_thread_that_waits_is_shown() -> None:
    jobs: queue.Queue[None] = queue.Queue()
    thread = dhaga._kernel.originals.Thread(target=jobs.get, name="plain")
    thread.start()
    while not (views := [each for each in debug.snapshot().threads if each.name == "plain"]):
        time.sleep(0.001)
    jobs.put(None)
    thread.join()
    assert (views[0].kind, views[0].reason) == ("OS thread", "queue.get")


def test_a_snapshot_is_json() -> None:
    with virtual_clock():
        dhagas = [dhaga.spawn(dhaga.sleep, 1, name=f"sleeper {n}") for n in range(100)]
        settle()
        found = json.loads(json.dumps(asdict(debug.snapshot())))
        for each in dhagas:
            each.join()
    assert [each["name"] for each in found["schedulers"][0]["dhagas"]] == [
        "main code",
        *(f"sleeper {n}" for n in range(100)),
    ]
