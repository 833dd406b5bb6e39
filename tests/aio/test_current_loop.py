"""asyncio.get_event_loop() in code that blocks: the loop on which await_ runs coroutines."""

from __future__ import annotations

import sys

import pytest

from tests.kit.scripts import run

pytestmark = pytest.mark.skipif(
    not (3, 14) <= sys.version_info < (3, 16), reason="elsewhere the standard function makes a loop, or has no hook"
)

BINDS = """
import asyncio, os
import dhaga
from tornado.ioloop import IOLoop

class Pool:  # as asyncpg's
    def __init__(self):
        self.loop = asyncio.get_event_loop()

    def __await__(self):
        future = self.loop.create_future()
        self.loop.call_later(0.001, future.set_result, "connected")
        return (yield from future)

async def answers(value):
    await asyncio.sleep(0.001)
    return value

def wakes_a_future(future):
    future.get_loop().call_later(0.001, future.set_result, "woken")
    return future

def by_hand():  # what programs write that a loop may not be there for
    try:
        loop = asyncio.get_event_loop()
    except RuntimeError:
        loop = asyncio.new_event_loop()
        asyncio.set_event_loop(loop)
    if loop.is_running():
        return "taken for a coroutine"
    try:
        return loop.run_until_complete(answers("by hand"))
    finally:
        loop.close()

def forever():
    loop = asyncio.get_event_loop()
    loop.call_later(0.001, loop.stop)
    loop.run_forever()
    return "stopped"

def tornado():
    return IOLoop.current().run_sync(lambda: answers("tornado"))

def all_of_them():
    return [
        dhaga.await_(Pool()),
        dhaga.await_(asyncio.gather(answers(1), answers(2))),
        dhaga.await_(asyncio.ensure_future(answers(3))),
        dhaga.await_(wakes_a_future(asyncio.Future())),
        by_hand(), forever(), tornado(), by_hand(),
    ]
"""
EACH = "['connected', [1, 2], 3, 'woken', 'by hand', 'stopped', 'tornado', 'by hand']"


@pytest.mark.parametrize("options", [(), ("dhaga",)], ids=["imported", "patched"])
def test_what_is_bound_in_blocking_code_can_be_awaited_there(options: tuple[str, ...]) -> None:
    program = (
        BINDS
        + """
if __name__ == "__main__":
    print(dhaga.await_(Pool()))
    print(all_of_them())
    print(dhaga.spawn(all_of_them).result())
    with dhaga.Scheduler("other") as scheduler:
        print(scheduler.spawn(all_of_them).result())
    beside = [dhaga.spawn(all_of_them) for _ in range(3)]
    print(all_of_them() == [each.result() for each in beside][0])
    print(asyncio.run(answers("run")), all_of_them()[0])
    print(dhaga.current().scheduler)
"""
    )
    patch = "import dhaga.monkey; dhaga.monkey.patch()\n" if options else ""
    ended = run(patch + program)
    assert ended.err == ""
    assert ended.lines[:-1] == ["connected", EACH, EACH, EACH, "True", "run connected"]
    assert ended.lines[-1].startswith("<Scheduler MainThread ")


def test_a_dhaga_that_stops_its_loop_does_not_end_what_others_run_there() -> None:
    program = (
        BINDS
        + """
from dhaga import await_

async def after(event, value):
    await event.wait()
    return value

def runs_until(event):
    return IOLoop.current().run_sync(lambda: after(event, "went on"))

event = asyncio.Event()
runs = [dhaga.spawn(runs_until, event) for _ in range(3)]
dhaga.sleep(0)
print([dhaga.spawn(short).result() for short in (tornado, forever)])
print([run.is_alive() for run in runs])
event.set()
print([run.result() for run in runs])
"""
    )
    ended = run(program)
    assert (ended.err, ended.lines) == ("", ["['tornado', 'stopped']", str([True] * 3), str(["went on"] * 3)])


def test_a_loop_that_another_dhaga_stops_is_stopped_for_all_who_run_it() -> None:
    program = """
import asyncio, dhaga
from dhaga import await_

loop = asyncio.get_event_loop()
runs = [dhaga.spawn(loop.run_forever) for _ in range(3)]
dhaga.sleep(0)
loop.stop()
print([run.result() for run in runs])
"""
    ended = run(program)
    assert (ended.err, ended.lines) == ("", [str([None] * 3)])


def test_a_forked_child_gets_a_loop_of_its_own() -> None:
    program = (
        BINDS
        + """
import sys
def forks():
    all_of_them()
    pid = os.fork()
    if pid == 0:
        print(all_of_them())
        sys.stdout.flush()
        os._exit(0)
    os.waitpid(pid, 0)
    return all_of_them()

print(forks())
print(dhaga.spawn(forks).result())
"""
    )
    ended = run(program, "-W", "ignore::DeprecationWarning")
    assert (ended.err, ended.lines) == ("", [EACH] * 4)


def test_other_threads_and_programs_that_never_await_keep_the_standard_error() -> None:
    program = """
import asyncio, threading
import dhaga, dhaga.http, dhaga.servers

def error():
    try:
        return asyncio.get_event_loop()
    except RuntimeError as error:
        return error

def elsewhere(fn):
    got = []
    thread = threading.Thread(target=lambda: got.append(fn()))
    thread.start()
    while not got:
        dhaga.sleep(0.001)
    return got[0]

def runs():
    coroutine = asyncio.sleep(0)
    try:
        loop.run_until_complete(coroutine)
    except RuntimeError as error:
        return error
    finally:
        coroutine.close()

print(error(), dhaga.spawn(error).result())
from dhaga import await_
loop = error()
print(loop is dhaga.current().scheduler.loop, elsewhere(error))
print(elsewhere(runs))
print(elsewhere(loop.is_running), loop.is_running())
asyncio.set_event_loop(own := asyncio.new_event_loop())
print(error() is own)
own.close()
"""
    ended = run(program)
    main = "There is no current event loop in thread 'MainThread'."
    assert ended.err == ""
    lines = ended.lines
    refused = lines.pop(2)
    assert refused.startswith("this loop belongs to <Scheduler MainThread ")
    assert refused.endswith("make a loop for this thread with asyncio.new_event_loop()")
    assert lines == [
        f"{main} {main}",
        "True There is no current event loop in thread 'Thread-1 (<lambda>)'.",
        "True False",
        "True",
    ]


def test_a_policy_of_the_program_is_left_alone() -> None:
    program = """
import asyncio, warnings
warnings.simplefilter("ignore")

class Policy(asyncio.DefaultEventLoopPolicy):
    def get_event_loop(self):
        return "mine"

asyncio.set_event_loop_policy(Policy())
from dhaga import await_
print(asyncio.get_event_loop(), await_(asyncio.sleep(0, 1)))
"""
    ended = run(program)
    assert (ended.err, ended.out) == ("", "mine 1\n")
