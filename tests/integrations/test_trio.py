"""trio in patched programs: in main code, in threads, with threads of its own."""

from __future__ import annotations

import pytest

from tests.kit.scripts import prints

pytest.importorskip("trio")

HEAD = """
import dhaga.monkey
dhaga.monkey.patch()
import threading, time, trio

def blocks(number):
    time.sleep(0.01)
    return number

def calls_back(number):
    return trio.from_thread.run(trio.sleep, 0.001) or number

async def main():
    async with trio.open_nursery() as nursery:
        for _ in range(3):
            nursery.start_soon(trio.sleep, 0.001)
    near, far = trio.socket.socketpair()
    with near, far:
        await near.send(b"x")
        read = await far.recv(1)
        with trio.move_on_after(0.001) as scope:
            await far.recv(1)
    return [await trio.to_thread.run_sync(f, 7) for f in (blocks, calls_back)], read, scope.cancelled_caught
"""


def test_trio_runs_in_main_code_and_in_threads_one_after_the_other_and_at_once() -> None:
    assert (
        prints(
            HEAD
            + """
print(trio.run(main))
for _ in range(2):
    thread = threading.Thread(target=lambda: print(trio.run(main)))
    thread.start()
    thread.join()
threads = [threading.Thread(target=lambda: print(trio.run(main))) for _ in range(3)]
for thread in threads: thread.start()
for thread in threads: thread.join()
"""
        )
        == ["([7, 7], b'x', True)"] * 6
    )


def test_a_task_that_blocks_stops_no_other_thread() -> None:
    assert prints(
        HEAD
        + """
async def blocks_in_a_task():
    time.sleep(0.02)
    print("task")

thread = threading.Thread(target=trio.run, args=(blocks_in_a_task,))
thread.start()
print("main")
thread.join()
"""
    ) == ["main", "task"]


def test_the_patch_keeps_trio_from_naming_threads_in_c_until_it_is_undone() -> None:
    assert prints("""
from dhaga import monkey
monkey.patch()
from trio._core import _thread_cache as cache
print(cache.set_os_thread_name)
monkey.unpatch()
print(bool(cache.set_os_thread_name) is bool(cache.get_os_thread_name_func()))
""") == ["None", "True"]
