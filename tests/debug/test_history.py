"""The history of the last minutes: what is sampled, and the lag of a blocked scheduler."""

from __future__ import annotations

import threading
from collections import Counter

import pytest

import dhaga
from dhaga._kernel.run import preemption
from dhaga.debug import _history
from dhaga.debug._history import History, LagProbe
from dhaga.debug._remote.client import InspectorClient
from tests.kit import scripts
from tests.kit.inspectors import park_all
from tests.kit.standard_calls import originals_with


def test_a_sample_counts_runnable_and_parked(observed: dhaga.Scheduler) -> None:
    park_all(observed, *(observed.spawn(dhaga.sleep, 60) for _ in range(3)))
    history = History()
    history.sample()
    ((_, runnable, parked, lag, preempted),) = history.samples
    assert (parked, lag, preempted) == (3, 0.0, 0.0)
    assert runnable in (0, 1)  # the tail of the last lap
    observed.call(observed.cancel_all)


def test_while_a_dhaga_holds_its_thread_the_lag_grows(observed: dhaga.Scheduler) -> None:
    holds, let_go = threading.Event(), threading.Event()

    def hold() -> None:
        holds.set()
        let_go.wait(scripts.PATIENCE)

    holder = observed.spawn(hold)
    assert holds.wait(scripts.PATIENCE)
    waiting = observed.spawn(dhaga.sleep, 60)
    history = History()
    for _ in range(3):
        history.sample()
    lags = [sample[3] for sample in history.samples]
    assert lags[0] == 0.0 < lags[1] < lags[2]
    assert [sample[1] for sample in history.samples] == [1, 1, 1]  # without the probe
    probe = history.probes[observed]
    let_go.set()
    holder.join()
    while probe.delay is None:
        observed.spawn(dhaga.sleep, 0).join()
    history.sample()
    assert history.samples[-1][3] == probe.delay > lags[2]
    waiting.cancel()


def test_a_sleeping_scheduler_has_no_lag_and_an_ended_one_no_probe(observed: dhaga.Scheduler) -> None:
    park_all(observed, sleeper := observed.spawn(dhaga.sleep, 60))
    while not observed.asleep:
        pass
    history = History()
    history.sample()
    assert history.probes == {}
    with dhaga.Scheduler("ended") as ended:
        pass
    history.probes = {ended: LagProbe(observed)}
    history.sample()
    assert [sample[3] for sample in history.samples] == [0.0, 0.0]
    sleeper.cancel()


def test_preemptions_are_a_rate_since_the_last_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(preemption, "places", Counter({"before": 5}))
    monkeypatch.setattr(_history, "originals", originals_with(monotonic=lambda: now[0]))
    history = History()
    preemption.places.update(before=1, later=5)
    now[0] = 102.0
    assert [history.preemption_rate(), history.preemption_rate()] == [3.0, 0.0]


def test_only_newer_samples_are_told(line: InspectorClient) -> None:
    while len(line.ask("history")["samples"]) < 1:
        pass
    answer = line.ask("history")
    last = answer["samples"][-1][0]
    assert answer["interval"] == _history.SAMPLE_SECONDS
    assert all(sample[0] > last for sample in line.ask("history", since=last)["samples"])


def test_it_ends_when_it_is_closed() -> None:
    history = History()
    history.close()  # never started
    history.start()
    thread = history.thread
    assert thread is not None
    history.close()
    assert not thread.is_alive()
    history.close()
