"""Several users of one file: each operation in its turn, whole, whatever ends the others."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import dhaga
import dhaga.io
from dhaga._iowait import file_state
from dhaga._kernel import originals
from dhaga._kernel.run.fd_watch import FdWatchers
from dhaga._kernel.wait.current import this_waiter
from dhaga.testing import settle
from tests.kit.files import LINES, Occupied

# ---- several users of one file


def test_lines_read_by_several_are_whole_and_each_is_read_once(path: Path, pool: dhaga.OffloadPool) -> None:
    for mode in ("r", "rb", "r+b"):
        with dhaga.open(path, mode, pool=pool) as f:
            readers = [dhaga.spawn(lambda: [*f]) for _ in range(5)]
            lines = [line for reader in readers for line in reader.result(30)]
        assert sorted(lines) == sorted(LINES if mode == "r" else [line.encode() for line in LINES])


@pytest.mark.parametrize(("mode", "buffering"), [("w", -1), ("w", 100), ("wb", 100), ("w+b", 100), ("wb", 0)])
def test_what_several_write_is_not_interleaved(path: Path, mode: str, buffering: int) -> None:
    def writes(name: str) -> None:
        for n in range(50):
            record = f"{name} {n} " + name * 300 + "\n"
            f.write(record.encode() if "b" in mode else record)
            if n % 10 == 0:
                f.flush()

    with dhaga.spawn(dhaga.open, path, mode, buffering).result(30) as f:
        writers = [dhaga.spawn(writes, name) for name in "abcdef"]
        for writer in writers:
            writer.result(30)
    written = path.read_text().splitlines()
    for name in "abcdef":
        assert [line for line in written if line[0] == name] == [f"{name} {n} " + name * 300 for n in range(50)]


@pytest.mark.usefixtures("no_cache")
def test_who_waits_for_its_turn_gets_it_in_order(path: Path, pool: dhaga.OffloadPool) -> None:
    f = dhaga.spawn(dhaga.open, path, "rb", pool=pool).result(30)
    with Occupied(pool):
        first = dhaga.spawn(f.read, 5)
        settle()
        others = [dhaga.spawn(f.read, 5) for _ in range(3)]
        settle()
        assert (first.reason, others[0].reason) == ("offload files", "lock.acquire")
        others[1].cancel()
    whole = "".join(LINES).encode()
    assert [d.result(30) for d in (first, others[0], others[2])] == [whole[:5], whole[5:10], whole[10:15]]
    f.close()


# ---- pipes


def error_of(fn: Callable[..., Any], *args: Any) -> str:
    with pytest.raises(OSError) as info:
        fn(*args)
    return str(info.value)


def test_who_waits_for_a_pipe_that_is_closed_gets_an_error_and_close_does_not_wait() -> None:
    receiving, sending = os.pipe()
    for buffering in (-1, 0):
        f = dhaga.spawn(dhaga.open, os.dup(receiving), "rb", buffering).result(30)
        readers = [dhaga.spawn(error_of, f.read, 10) for _ in range(2)]
        settle()
        f.close()
        assert ["Bad file descriptor" in reader.result(30) for reader in readers] == [True, True]
        with pytest.raises(ValueError, match="closed file"):
            f.read()
    os.close(receiving)
    os.close(sending)


def test_what_the_buffer_holds_is_written_by_close_even_if_somebody_else_waits_to_write() -> None:
    receiving, sending = os.pipe()
    f = dhaga.spawn(dhaga.open, sending, "wb", 100).result(30)
    f.write(b"first")
    closing = dhaga.spawn(f.close)
    with open(receiving, "rb") as g:
        assert dhaga.offload(g.read) == b"first"
    closing.result(30)


def test_a_close_by_another_thread_just_before_the_wait_for_data_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    read_end, write_end = os.pipe()
    with dhaga.io.open(read_end, "rb", buffering=0) as file, open(write_end, "wb"):
        opened: Any = file
        lock: Any = opened.file_state

        def closed_meanwhile() -> Any:
            lock.closing = True
            former, lock.watchers = lock.watchers, FdWatchers(read_end)
            former.close()
            return this_waiter()

        monkeypatch.setattr(file_state, "this_waiter", closed_meanwhile)
        with pytest.raises(OSError, match="Bad file descriptor"):
            lock.wait_until(originals.select_module.POLLIN)
        lock.closing = False
