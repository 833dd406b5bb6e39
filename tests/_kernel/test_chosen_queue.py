"""Run queues that choose their next entry."""

from __future__ import annotations

import dhaga
from dhaga._kernel.run.chosen_queue import ChosenQueue, ShuffledQueue
from dhaga.testing import virtual_clock


class LastFirst(ChosenQueue):
    def choose(self) -> int:
        return len(self) - 1


def test_the_chosen_entry_comes_first_and_the_others_keep_their_order() -> None:
    queue = LastFirst("abc")
    assert (queue.popleft(), [*queue]) == ("c", ["a", "b"])


def test_a_shuffled_queue_yields_each_entry_once_by_its_seed() -> None:
    def drained(seed: int) -> str:
        queue = ShuffledQueue(seed)
        queue.extend("abcdef")
        return "".join(queue.popleft() for _ in range(6))

    assert drained(1) == drained(1) != drained(2)
    assert sorted(drained(1)) == [*"abcdef"]


def test_high_dhagas_stay_first() -> None:
    for seed in range(5):
        ran: list[str] = []
        with virtual_clock(shuffle=seed):
            dhagas = [dhaga.spawn(ran.append, "normal") for _ in range(3)]
            dhagas.append(dhaga.spawn(ran.append, "high", priority=dhaga.HIGH))
            for each in dhagas:
                each.join()
        assert ran == ["high", "normal", "normal", "normal"]
