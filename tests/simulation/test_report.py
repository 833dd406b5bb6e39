"""Reports: events in words, and the lines around switches side by side."""

from __future__ import annotations

import queue
import random
import socket
import threading
import time

import pytest

from dhaga.simulation import Outcome, Settings, Simulation, current, search, shrink
from dhaga.simulation._world.report import LAST, SHOWN, chosen_of, failure_text, members_of


def test_members_of_switches_are_those_that_they_name() -> None:
    assert members_of("2.31>1,1/4>3") == {1, 2, 3}
    assert members_of("") == set()


def test_a_failure_without_lines_is_its_report() -> None:
    assert failure_text(Outcome(1, kind="KeyError", switches="1.2>2", report="text\n")) == "text"


def test_the_cause_comes_before_the_report() -> None:
    text = failure_text(Outcome(1, kind="KeyError", report="text\n"))
    assert text.startswith("the cause lies in no switch") and text.endswith("\n\ntext")


def test_a_report_has_the_sizes_of_messages_and_folds_idle_loops() -> None:
    with pytest.raises(KeyError) as caught, Simulation(1, preempt=None) as world:
        world.network.set_default(latency=1)
        with socket.create_server(("", 80)) as listener, socket.create_connection(("localhost", 80)) as sock:
            with listener.accept()[0] as peer:
                sock.sendall(b"x" * 1234)
                peer.recv(2000)
                for _ in range(30):
                    time.sleep(1)
                raise KeyError("gone")
    report = caught.value.__notes__[0]
    assert f"the network takes 1234 bytes from main:32768 for main:80: {b'x' * 32!r}…" in report
    assert "the network brings main:80 1234 bytes from main:32768" in report
    assert "main code waits for sleep; main code runs at 33.000000 (30 times)" in report


def test_lines_around_the_switches_follow_the_report() -> None:
    lines = [(0, "a.py", 1), (1, "a.py", 2), (0, "a.py", 3)]
    outcome = Outcome(1, kind="KeyError", report="text", switches="0.1>1", names=["main code", "one"], lines=lines)
    text, _, beside = failure_text(outcome).partition("\n\nthe lines around the switches:\n\n")
    assert text == "text" and beside.splitlines()[0].split() == ["main", "code", "one"]


def test_a_report_has_the_last_events_and_those_around_what_the_seed_has_brought() -> None:
    texts = ["waits for sleep"] * 100
    assert chosen_of(texts[:SHOWN]) == set(range(SHOWN)) and chosen_of([]) == set()
    assert chosen_of(texts) == set(range(100 - SHOWN, 100))
    texts[0] = texts[40] = "leaves 1 unsynced writes of shop:/log: lost, 0 bytes"
    assert chosen_of(texts) == {0, 1, 39, 40, 41, *range(100 - SHOWN + 5, 100)}
    texts[10:90:5] = ["stands still for 0.1 s before a.py:3"] * 16
    chosen = chosen_of(texts)
    assert {84, 85, 86, *range(100 - LAST, 100)} <= chosen and SHOWN - 3 < len(chosen) <= SHOWN


def writes_too_late() -> None:
    host = current().network.host("shop")
    (host.disk.path / "log").touch()
    host.disk.sync()

    def write() -> None:
        with open(host.disk.path / "log", "ab", buffering=0) as log:
            log.write(b"order")
            time.sleep(1)

    host.start(write)
    time.sleep(0.5)
    host.kill("lost")
    host.start(lambda: [time.sleep(0.01) for _ in range(30)]).join()
    assert (host.disk.path / "log").read_bytes() == b"order"


def test_a_report_has_the_lines_that_wait_and_write_and_the_kill_that_lost_a_write() -> None:
    report = shrink(writes_too_late, Settings(), search(writes_too_late, seeds=1).failures[0]).report
    place = writes_too_late.__code__.co_firstlineno
    for line in (
        f"shop writes 5 bytes to shop:/log at 0: b'order': test_report.py:{place + 7}  log.write(b\"order\")",
        f"waits for sleep: test_report.py:{place + 8}  time.sleep(1); main code runs at 0.500000",
        "the simulation kills shop",
        "the disk leaves 1 unsynced writes of shop:/log: lost, 0 bytes",
    ):
        assert line in report
    assert len(report.splitlines()) < SHOWN + 10


def waits_too_short() -> None:
    got: queue.Queue[int] = queue.Queue()
    threading.Thread(target=lambda: (time.sleep(2), got.put(1)), name="late").start()
    got.get(timeout=1)


def test_a_report_has_the_waits_that_timed_out() -> None:
    report = shrink(waits_too_short, Settings(), search(waits_too_short, seeds=1).failures[0]).report
    place = waits_too_short.__code__.co_firstlineno + 3
    assert f"1.000000  main code has timed out after 1 s: test_report.py:{place}  got.get(timeout=1)" in report
    assert "late has timed out" not in report  # a sleep that ends is none


def test_no_switch_but_a_timeout_or_a_loss_may_be_the_cause() -> None:
    for program, event in (
        (waits_too_short, "main code has timed out after 1 s: "),
        (writes_too_late, "the disk leaves 1 unsynced writes of shop:/log: lost, 0 bytes"),
    ):
        outcome = shrink(program, Settings(), search(program, seeds=1).failures[0])
        assert f"\n  the seed has also drawn:\n  {'1.0' if 'timed' in event else '0.5'}00000  {event}" in failure_text(
            outcome
        )


def reads_in_vain() -> None:
    with socket.create_server(("", 80)), socket.create_connection(("localhost", 80)) as sock:
        sock.settimeout(1)
        sock.recv(1)


def test_a_report_has_the_addresses_behind_an_fd() -> None:
    report = shrink(reads_in_vain, Settings(), search(reads_in_vain, seeds=1).failures[0]).report
    assert "(main:32768 to 127.0.0.1:80): test_report.py" in report


def appends_to_what_is_left() -> None:
    host = current().network.host("shop")
    (host.disk.path / "log").touch()
    host.disk.sync()

    def write(text: bytes) -> None:
        with open(host.disk.path / "log", "ab", buffering=0) as log:
            log.write(text)
            for _ in range(40):
                time.sleep(random.random())

    host.start(write, b"1:order\n")
    time.sleep(0.001)
    host.kill("lost")
    host.start(write, b"2:order\n").join()
    raise AssertionError


def test_a_report_has_the_first_use_of_a_file_after_a_loss() -> None:
    settings = Settings(preempt=None)
    report = shrink(
        appends_to_what_is_left, settings, search(appends_to_what_is_left, settings=settings, seeds=1).failures[0]
    ).report
    assert "unsynced writes of shop:/log: lost, 0 bytes" in report
    assert "shop, start 2 writes 8 bytes to shop:/log at 0: b'2:order\\n'" in report
