"""The trace: slices of running and waiting on a track each, and arrows between them."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import greenlet
import pytest

import dhaga
from dhaga import debug, queue, threading
from dhaga._kernel import hooks
from dhaga._kernel.originals import Thread
from dhaga.debug._trace import SliceBuilder
from dhaga.testing import virtual_clock
from tests.debug import chrome
from tests.kit import scripts


def hand_over(path: Path) -> chrome.Picture:
    """Trace one item on its way, and read the file as those who draw it do."""
    with virtual_clock():
        items: queue.Queue[int] = queue.Queue()
        with debug.trace(path):
            consumer = dhaga.spawn(items.get, name="consumer")
            producer = dhaga.spawn(lambda: (dhaga.sleep(1), items.put(1)), name="producer")
            consumer.join()
            producer.join()
    return chrome.read(path)


@pytest.fixture(autouse=True)
def nobody_is_told() -> Iterator[None]:
    """Nothing is left in place when a trace is over."""
    yield
    assert hooks.on_wake is None and hooks.on_preemption is None
    assert greenlet.gettrace() is None


# ---- what is in it


def test_a_slice_that_preemption_ends_names_the_line(tmp_path: Path) -> None:
    stop = []

    def compute() -> None:
        deadline = time.perf_counter() + scripts.PATIENCE
        while not stop and time.perf_counter() < deadline:
            threading.Event().is_set()

    with debug.trace(tmp_path / "trace.json"), dhaga.Scheduler("preemptive", preempt=0.005) as scheduler:
        computing = scheduler.spawn(compute, name="computing")
        while not scheduler.preemptions:
            scheduler.spawn(dhaga.sleep, 0).join()
        stop.append(True)
        computing.join()
    track = chrome.read(tmp_path / "trace.json").tracks["computing"]
    ended = [each["args"]["preempted_at"] for each in track if "args" in each]
    assert len(ended) == scheduler.preemptions > 0
    assert all(re.fullmatch(r".*test_trace\.py:\d+ in .*compute", place) for place in ended)
    assert "args" not in track[-1]


def test_each_dhaga_has_a_track_with_its_name(tmp_path: Path) -> None:
    picture = hand_over(tmp_path / "trace.json")
    assert picture.process == f"process {os.getpid()}"
    assert sorted(picture.tracks) == ["consumer", "hub of virtual", "main code", "producer"]


def test_waiting_slices_bear_their_reasons(tmp_path: Path) -> None:
    picture = hand_over(tmp_path / "trace.json")
    assert picture.names("consumer") == ["running", "queue.get", "running"]
    assert picture.names("producer") == ["running", "sleep", "running"]
    assert picture.names("main code")[:2] == ["running", "join"]
    assert set(picture.names("hub of virtual")) == {"event loop"}


def test_an_arrow_leads_from_waker_to_woken(tmp_path: Path) -> None:
    arrows = hand_over(tmp_path / "trace.json").arrows
    assert ("producer", "consumer") in arrows
    assert ("hub of virtual", "producer") in arrows  # the end of its sleep


def test_a_wake_that_comes_second_is_no_arrow(tmp_path: Path) -> None:
    with virtual_clock(), debug.trace(tmp_path / "trace.json"):
        sleeper = dhaga.spawn(dhaga.park, "for two", name="sleeper")
        dhaga.spawn(lambda: (sleeper.wake(1), sleeper.wake(2)), name="waker")
        sleeper.join()
    assert [arrow for arrow in chrome.read(tmp_path / "trace.json").arrows if arrow[1] == "sleeper"] == [
        ("waker", "sleeper")
    ]


def test_a_plain_thread_that_wakes_somebody_has_a_track(tmp_path: Path) -> None:
    with debug.trace(tmp_path / "trace.json"):
        sleeper = dhaga.spawn(dhaga.park, "for somebody outside", name="sleeper")
        dhaga.sleep(0)
        outside = Thread(target=sleeper.wake, name="outside")
        outside.start()
        sleeper.join()
        outside.join()
        dhaga.offload(int)
    picture = chrome.read(tmp_path / "trace.json")
    assert ("dhaga-offload", "main code") in picture.arrows
    assert ("outside", "sleeper") in picture.arrows  # that thread has ended before the trace


def test_only_the_last_events_are_kept_and_nothing_is_made_up_before_them() -> None:
    with virtual_clock(), debug.trace(most=10) as trace:
        for _ in range(100):
            dhaga.sleep(0)
        trace.stop()
        notes = list(trace._records)
        slices = [
            each for each in SliceBuilder(notes, trace._began, trace._complete_since()).events() if each["ph"] == "X"
        ]
    assert len(notes) == 10
    first = (notes[0][0] - trace._began) / 1000
    assert first > 0
    assert all(each["ts"] >= first for each in slices)  # type: ignore[operator]


# ---- the file


def test_it_is_written_even_if_the_block_raises(tmp_path: Path) -> None:
    with virtual_clock(), pytest.raises(ZeroDivisionError), debug.trace(tmp_path / "trace.json"):
        dhaga.spawn(int, name="ran").join()
        raise ZeroDivisionError
    assert "ran" in chrome.read(tmp_path / "trace.json").tracks


def test_a_relative_path_is_the_one_of_the_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "other").mkdir()
    with virtual_clock(), debug.trace("trace.json"):
        dhaga.spawn(int, name="ran").join()
        monkeypatch.chdir(tmp_path / "other")
    assert "ran" in chrome.read(tmp_path / "trace.json").tracks


@pytest.mark.parametrize("most", [0, -1])
def test_a_trace_keeps_one_event_at_least(most: int) -> None:
    with pytest.raises(ValueError, match="most must be 1 or more"):
        debug.trace(most=most)


def test_a_file_that_cannot_be_written_is_told_at_once(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        debug.trace(tmp_path / "none" / "trace.json")


FORKS = """
    import json, os, sys
    import dhaga
    from dhaga import debug
    path = sys.argv[1]
    dhaga.spawn(int).join()
    with debug.trace(path):
        if not (pid := os.fork()):
            sys.exit()  # out of the block
        os.waitpid(pid, 0)
        dhaga.spawn(dhaga.sleep, 0, name="parent's").join()
        print(os.stat(path).st_size)
"""


def test_a_forked_child_leaves_the_file_to_its_parent(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    program = tmp_path / "program.py"
    program.write_text(textwrap.dedent(FORKS))
    done = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", str(program), str(path)],
        cwd=scripts.ROOT, capture_output=True, text=True, timeout=scripts.PATIENCE,
    )  # fmt: skip
    assert (done.stdout, done.stderr) == ("0\n", "")
    assert "parent's" in chrome.read(path).tracks


@pytest.mark.parametrize("spoil", ["overlap", "lost", "unnamed", "open"])
def test_the_reader_of_these_tests_finds_what_is_wrong(tmp_path: Path, spoil: str) -> None:
    hand_over(path := tmp_path / "trace.json")
    found: Any = json.loads(path.read_text())
    events = found["traceEvents"]
    slices = [each for each in events if each["ph"] == "X" and each["dur"]]
    if spoil == "overlap":
        events.append({**slices[0], "ts": slices[0]["ts"] + slices[0]["dur"] / 2})
    elif spoil == "lost":
        events.append({**next(each for each in events if each["ph"] == "s"), "ts": -5.0, "id": 10**6})
    elif spoil == "unnamed":
        events.remove(next(each for each in events if each["name"] == "thread_name"))
    else:
        del slices[0]["dur"]
    path.write_text(json.dumps(found))
    with pytest.raises(chrome.Fault):
        chrome.read(path)
