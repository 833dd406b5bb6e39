"""asyncio.run and its relatives in a patched program: each loop where it was started, and none stops the others."""

from __future__ import annotations

import sys

import pytest

from dhaga import asyncio as ours
from tests.kit.scripts import prints

HEAD = """
import dhaga.monkey
dhaga.monkey.patch()
import asyncio, contextvars, os, signal, socket, sys, threading, time
import dhaga, dhaga.asyncio
from dhaga._kernel.run.running_loop import loop_runs

def together(function, count):
    "Call a function in so many threads at once."
    results = []
    threads = [threading.Thread(target=lambda: results.append(function())) for _ in range(count)]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
    return results

log = []
begun = []
async def job():
    begun.append(True)
    try:
        await asyncio.sleep(30)
    except asyncio.CancelledError:
        await asyncio.sleep(0.001)
        log.append("cancelled")
        raise
    finally:
        log.append("finally")

def after_begin(strike, *args):
    "Wait until a coroutine has begun, and then call a function."
    while not begun: time.sleep(0.001)
    strike(*args)

def outcome(function):
    log.clear()
    begun.clear()
    try:
        return function()
    except BaseException as error:
        return repr(error), log
"""


def says(code: str) -> list[str]:
    """Run a patched program, which leaves nobody in a loop."""
    return prints(HEAD + code + "\nassert not loop_runs and asyncio._get_running_loop() is None\n")


def test_several_hundred_loops_run_at_once_in_one_thread() -> None:
    assert says("""
async def main():
    me, loop = threading.current_thread(), asyncio.get_running_loop()
    for i in range(5):
        await asyncio.sleep(0.002)
        assert threading.current_thread() is me
        assert asyncio.get_running_loop() is asyncio.current_task().get_loop() is asyncio.Future().get_loop() is loop
    return loop

from dhaga._kernel import originals
loops = together(lambda: asyncio.run(main()), 300)
print(len(set(loops)), len(originals.enumerate_threads()))
""") == ["300 1"]


def test_a_coroutine_that_blocks_stops_its_own_loop_alone() -> None:
    assert says("""
async def main(meeting):
    meeting.wait(60)
    time.sleep(0.001)
    lock.acquire()
    lock.release()
    time.sleep(0)
    return asyncio.get_running_loop() is asyncio.current_task().get_loop()

lock, all_of_them = threading.Lock(), threading.Barrier(40)
print(together(lambda: asyncio.run(main(all_of_them)), 40) == 40 * [True], asyncio.run(main(threading.Barrier(1))))
""") == ["True True"]


def test_threads_that_main_code_has_started_run_while_its_loop_runs() -> None:
    assert says("""
turns = []
def tick():
    while len(turns) < 5:
        turns.append(1)
        time.sleep(0.001)
async def main():
    while len(turns) < 5:
        await asyncio.sleep(0.001)
threading.Thread(target=tick).start()
asyncio.run(main())
print(len(turns))
""") == ["5"]


def test_a_loop_that_is_never_idle_lets_others_run() -> None:
    assert says("""
async def main(turns):
    thread = threading.Thread(target=lambda: (time.sleep(0.01), turns.append(1)))
    thread.start()
    while not turns:
        await asyncio.sleep(0)
    return turns
print(asyncio.run(main([])), together(lambda: asyncio.run(main([])), 2))
""") == ["[1] [[1], [1]]"]


def test_a_loop_shares_locals_locks_and_context_with_its_caller() -> None:
    assert says("""
place, lock, var = threading.local(), threading.RLock(), contextvars.ContextVar("var")
def caller():
    async def main():
        with lock:
            await asyncio.sleep(0)
            return place.name, var.get()
    place.name = "here"
    var.set(1)
    with lock:
        return asyncio.run(main())
print(together(caller, 2), caller())
""") == ["[('here', 1), ('here', 1)] ('here', 1)"]


def test_a_cancel_of_the_caller_cancels_the_coroutine_and_waits_for_its_end() -> None:
    assert says("""
async def stubborn():
    begun.append(True)
    try:
        await asyncio.sleep(30)
    except asyncio.CancelledError:
        return "kept"

def cancelled(main):
    waits = dhaga.spawn(lambda: asyncio.run(main()))
    after_begin(waits.cancel, "why")
    return waits.result()

def late(seconds=0.01):
    try:
        with dhaga.Timeout(seconds):
            asyncio.run(job())
    except TimeoutError:
        return TimeoutError if begun else late(4 * seconds)

print(outcome(lambda: cancelled(job)))
print(outcome(lambda: cancelled(stubborn)))
print(outcome(late), log)
print(outcome(lambda: dhaga.spawn(late).result()), log)
""") == [
        """("Cancelled('why')", ['cancelled', 'finally'])""",
        "kept",
        *2 * ["<class 'TimeoutError'> ['cancelled', 'finally']"],
    ]


def test_a_cancel_that_the_coroutine_swallows_is_raised_at_the_callers_next_park() -> None:
    assert says("""
async def stubborn(fails):
    begun.append(True)
    try:
        await asyncio.sleep(30)
    except asyncio.CancelledError:
        if fails:
            raise OSError("while putting away")
    return "kept"

async def shutdown():
    try:
        yield
    finally:
        await asyncio.sleep(0.001)
        log.append("shut down")

generators = []

async def with_generator(fails):
    generators.append(shutdown())
    await anext(generators[-1])
    return await stubborn(fails)

def in_runner(main):
    with asyncio.Runner() as runner:
        return runner.run(main)

def calls(run, fails):
    try:
        log.append(run(with_generator(fails)))
    except OSError as error:
        log.append(str(error))
    time.sleep(0)
    log.append("no cancel")

def cancelled(*args):
    waits = dhaga.spawn(calls, *args)
    after_begin(waits.cancel, "why")
    return waits.result()

for run in asyncio.run, in_runner:
    for fails in False, True:
        print(outcome(lambda: cancelled(run, fails)))
""") == 2 * [
        """("Cancelled('why')", ['shut down', 'kept'])""",
        """("Cancelled('why')", ['shut down', 'while putting away'])""",
    ]


def test_ctrl_c_in_main_code_cancels_the_coroutine() -> None:
    assert says("""
threading.Thread(target=after_begin, args=(os.kill, os.getpid(), signal.SIGINT)).start()
print(outcome(lambda: asyncio.run(job())))
print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)
""") == ["('KeyboardInterrupt()', ['cancelled', 'finally'])", "True"]


def test_a_loop_in_main_code_hears_signals() -> None:
    assert says("""
async def main():
    heard = asyncio.get_running_loop().create_future()
    asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, heard.set_result, "heard")
    threading.Timer(0.01, os.kill, (os.getpid(), signal.SIGUSR1)).start()
    return await asyncio.wait_for(heard, 60)
print(asyncio.run(main()))
""") == ["heard"]


def test_what_is_nested_is_refused_as_by_the_standard() -> None:
    assert says("""
async def main():
    main = asyncio.sleep(0)
    try:
        asyncio.run(main)
    except RuntimeError as error:
        main.close()
        return str(error)
print({asyncio.run(main()), *together(lambda: asyncio.run(main()), 1)})
print(outcome(lambda: asyncio.run(1))[0])
""") == [
        "{'asyncio.run() cannot be called from a running event loop'}",
        "TypeError('An asyncio.Future, a coroutine or an awaitable is required')"
        if sys.version_info >= (3, 14)
        else "ValueError('a coroutine was expected, got 1')",
    ]


def test_a_thread_finds_no_running_loop_and_keeps_a_current_one_of_its_own() -> None:
    assert says("""
def old_style():
    try:
        asyncio.get_running_loop()
    except RuntimeError as error:
        message = str(error)
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    time.sleep(0.001)
    assert asyncio.get_event_loop() is loop
    value = loop.run_until_complete(asyncio.sleep(0.001, message))
    loop.close()
    return value
print(together(old_style, 2))
with asyncio.Runner(debug=True) as runner:
    print(runner.run(asyncio.sleep(0, 1)), runner.run(asyncio.sleep(0, 2)), runner.get_loop().get_debug())
""") == ["['no running event loop', 'no running event loop']", "1 2 True"]


def test_threads_and_processes_of_a_loop_work_in_several_at_once() -> None:
    assert says("""
async def main():
    thread = threading.Thread(target=time.sleep, args=(0.001,))
    thread.start()
    thread.join()
    loop = asyncio.get_running_loop()
    process = await asyncio.create_subprocess_exec(sys.executable, "-Sc", "print(input() * 2)", stdin=-1, stdout=-1)
    out, _ = await process.communicate(b"ab")
    answer = await loop.run_in_executor(None, lambda: (time.sleep(0.001), 7)[1])
    return out, process.returncode, answer, await asyncio.to_thread(threading.active_count) > 1
print(asyncio.run(main()), *set(together(lambda: asyncio.run(main()), 3)))
""") == ["(b'abab\\n', 0, 7, True) (b'abab\\n', 0, 7, True)"]


def test_streams_and_dhagas_can_be_awaited() -> None:
    assert says("""
async def serve(reader, writer):
    writer.write((await reader.readline()).upper())
    writer.close()

async def main():
    async with await asyncio.start_server(serve, "localhost", 0) as server:
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname()[:2])
        writer.write(b"abc\\n")
        got = await reader.read()
        writer.close()
    return got, await dhaga.spawn(lambda: 1), await dhaga.aio.run_in_dhaga(lambda: 2)
print(asyncio.run(main()), *set(together(lambda: asyncio.run(main()), 3)))
""") == ["(b'ABC\\n', 1, 2) (b'ABC\\n', 1, 2)"]


@pytest.mark.once
def test_aiohttp_clients_run_in_two_dhagas_at_once() -> None:
    pytest.importorskip("aiohttp")
    assert says("""
import aiohttp
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        inside.wait(60)
        self.send_response(200)
        self.end_headers()
        self.wfile.write(self.path.encode())
    def log_message(self, *args): pass

inside = threading.Barrier(2)
server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
threading.Thread(target=server.serve_forever, args=(0.01,)).start()
async def main():
    async with aiohttp.ClientSession() as session:
        async with session.get("http://127.0.0.1:%d/x" % server.server_port) as response:
            return await response.text()
print(together(lambda: asyncio.run(main()), 2))
server.shutdown()
server.server_close()
""") == ["['/x', '/x']"]


@pytest.mark.once
def test_a_loop_that_waits_in_c_runs_in_an_os_thread() -> None:
    pytest.importorskip("uvloop")
    assert says("""
import uvloop
async def main():
    time.sleep(0.001)
    await asyncio.sleep(0.001)
    return type(asyncio.get_running_loop()).__module__
def cancelled():
    waits = dhaga.spawn(lambda: uvloop.run(job()))
    after_begin(waits.cancel, "why")
    return waits.result()
print(uvloop.run(asyncio.sleep(0.001, 1)), together(lambda: uvloop.run(main()), 2))
print(outcome(cancelled))
""") == ["1 ['uvloop', 'uvloop']", """("Cancelled('why')", ['cancelled', 'finally'])"""]


def test_a_native_thread_has_a_loop_that_blocks() -> None:
    assert says("""
import _thread
from dhaga._kernel import originals
async def main():
    time.sleep(0.001)
    await asyncio.sleep(0.001)
    return originals.get_ident()
idents, done = [], originals.allocate_lock()
done.acquire()
originals.start_new_thread(lambda: (idents.append(asyncio.run(main())), done.release()), ())
done.acquire()
print(idents != [originals.get_ident()])
""") == ["True"]


@pytest.mark.skipif(sys.version_info >= (3, 14), reason="asyncio logs an error in such a child, without Dhaga as well")
def test_a_child_that_is_forked_in_a_coroutine_may_go_on_and_run_others() -> None:
    assert says("""
async def fork():
    return os.fork()

def parent():
    pid = asyncio.run(fork())
    if pid == 0:
        time.sleep(0.001)
        os._exit(asyncio.run(asyncio.sleep(0.001, 7)))
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
print(dhaga.spawn(parent).result(), parent())
""") == ["7 7"]


@pytest.mark.once
def test_a_coroutine_of_main_code_may_block_on_a_thread_that_runs_a_loop() -> None:
    """As anyio's start_blocking_portal does. Main code gets its scheduler within the loop, by the thread's start."""
    assert says("""
def seen():
    task, loop = asyncio.current_task(), asyncio.get_running_loop()
    return task.get_coro().__name__, sys.get_asyncgen_hooks().firstiter.__self__ is loop

async def of_a_thread():
    return seen()

async def of_main_code():
    print(together(lambda: asyncio.run(of_a_thread()), 2))
    await asyncio.sleep(0)
    print(seen())

asyncio.run(of_main_code())
""") == ["[('of_a_thread', True), ('of_a_thread', True)]", "('of_main_code', True)"]


def test_a_loop_of_main_code_is_freed_after_its_end() -> None:
    """Also the first one, in which main code got its scheduler: its hooks must not be left as those from outside."""
    assert says("""
import gc, weakref

async def main():
    await asyncio.get_running_loop().run_in_executor(None, int)
    return weakref.ref(asyncio.get_running_loop())

loops = [asyncio.run(main()) for _ in range(3)]
gc.collect()
print([loop() for loop in loops])
""") == ["[None, None, None]"]


def test_debug_mode_tells_threads_apart() -> None:
    assert says("""
async def main():
    def intrude():
        try:
            loop.call_soon(print)
        except RuntimeError as error:
            return str(error)[:25]
    loop = asyncio.get_running_loop()
    loop.slow_callback_duration = 9
    return await asyncio.to_thread(intrude)
print(*together(lambda: asyncio.run(main(), debug=True), 2))
scheduler = dhaga._kernel.process.current_scheduler.current_scheduler()
scheduler.loop.set_debug(True)
scheduler.loop.slow_callback_duration = 9
print(dhaga.spawn(lambda: dhaga.await_(asyncio.sleep(0.001, "shared"))).result())
""") == ["Non-thread-safe operation Non-thread-safe operation", "shared"]


def test_a_program_ends_while_daemons_run_loops() -> None:
    assert prints(
        HEAD
        + """
loop = asyncio.new_event_loop()
threading.Thread(target=loop.run_forever, daemon=True).start()
waits = asyncio.run_coroutine_threadsafe(asyncio.sleep(30), loop)
threading.Thread(target=lambda: asyncio.run(asyncio.sleep(30)), daemon=True).start()
print(asyncio.run_coroutine_threadsafe(asyncio.sleep(0.01, 1), loop).result(60))
"""
    ) == ["1"]


@pytest.mark.once
def test_the_policies_of_others_make_loops_that_park() -> None:
    assert says("""
from tornado.platform.asyncio import AnyThreadEventLoopPolicy
import warnings
warnings.simplefilter("ignore")
asyncio.set_event_loop_policy(AnyThreadEventLoopPolicy())
async def main():
    await asyncio.sleep(0.01)
    return asyncio.get_running_loop().parks
print(together(lambda: asyncio.run(main()), 2))
""") == ["[True, True]"]


def test_the_policy_stands_on_what_the_standard_one_has() -> None:
    policy = ours.DefaultEventLoopPolicy()
    standard = super(ours.DefaultEventLoopPolicy, policy)
    assert hasattr(standard, "_loop_factory")
    assert {"_loop", "_set_called"} <= set(dir(policy._local)) and hasattr(standard, "get_event_loop")
    assert sys.version_info < (3, 16)  # where policies are to end


FROZEN = """
import dataclasses
@dataclasses.dataclass(frozen=True)
class Refused(Exception):
    code: int = 7

async def refuses():
    await asyncio.sleep(0)
    raise Refused

def on_a_loop_of_its_own():
    loop = asyncio.new_event_loop()
    try:
        loop.run_until_complete(refuses())
    finally:
        loop.close()

def by_a_runner():
    with asyncio.Runner() as runner:
        runner.run(refuses())

for run in (lambda: asyncio.run(refuses()), on_a_loop_of_its_own, by_a_runner):
    print(outcome(run), together(lambda: outcome(run), 2))
"""


def test_an_error_whose_attributes_cannot_be_set_comes_out_as_it_is() -> None:
    refused = "('Refused(code=7)', [])"
    assert says(FROZEN) == [f"{refused} [{refused}, {refused}]"] * 3


@pytest.mark.skipif(
    not (3, 12) <= sys.version_info < (3, 14),
    reason="the standard one warns on 3.12 and 3.13, and raises on later ones",
)
def test_the_warning_that_there_is_no_loop_names_the_callers_line() -> None:
    assert says("""
import warnings
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    loop = asyncio.get_event_loop()
line = sys._getframe().f_lineno - 1
loop.close()
print(*((w.category.__name__, w.filename, line - w.lineno) for w in caught))
""") == ["('DeprecationWarning', '<string>', 0)"]


# ---- what strikes a dhaga while its loop runs

STRIKES = """
from dhaga.compat import gevent

class Struck(BaseException):
    "What a greenlet is killed with."

async def blocks():
    time.sleep(30)

async def waits_for_a_child():
    await asyncio.wait([asyncio.create_task(blocks())])
    await job()

async def leaves_a_child_alone():
    child = asyncio.create_task(blocks())
    await job()

async def gathers():
    await asyncio.gather(blocks(), return_exceptions=True)
    await job()

async def groups():
    async with asyncio.TaskGroup() as group:
        group.create_task(blocks())
        group.create_task(job())

async def calls_back():
    asyncio.get_running_loop().call_soon(time.sleep, 30)
    await job()

async def handles_it():
    child = asyncio.create_task(within(blocks))
    await child
    return "handled"

async def within(what):
    try:
        await what()
    except BaseException:
        return

def struck(main, error, steps=3):
    "Strike a greenlet that runs a loop after some laps. Returns: how it ended, and what its loop said of it."
    said = []
    def caller():
        try:
            with asyncio.Runner() as runner:
                runner.get_loop().set_exception_handler(lambda loop, context: said.append(context["message"]))
                result = runner.run(main())
            dhaga.sleep(0)
            return result
        except BaseException as error:
            return type(error).__name__
    victim = gevent.spawn(caller)
    for _ in range(steps):
        dhaga.sleep(0)
    victim.kill(error) if error else dhaga.Dhaga.cancel(victim, "why")
    victim.join()
    return [victim.value, *said]
"""


@pytest.mark.parametrize("error, name", [("None", "Cancelled"), ("gevent.GreenletExit", "GreenletExit")])
def test_no_task_or_callback_keeps_what_ends_its_dhaga(error: str, name: str) -> None:
    assert says(f"""{STRIKES}
for main in (blocks, job, waits_for_a_child, leaves_a_child_alone, gathers, groups, calls_back, handles_it):
    print(*struck(main, {error}))
""") == [*7 * [name], "handled"]


@pytest.mark.parametrize("error, name", [("None", "Cancelled"), ("Struck", "Struck")])
def test_a_dhaga_is_ended_in_whatever_lap_of_its_loop(error: str, name: str) -> None:
    assert says(f"""{STRIKES}
async def main():
    async with asyncio.TaskGroup() as group:
        for _ in range(2):
            group.create_task(asyncio.to_thread(time.sleep, 0))
    await asyncio.sleep(0)
# What the loop says is left out: 3.11's shutdown of an executor cannot be cancelled without a word of asyncio's.
ends = [struck(main, {error}, steps)[0] for steps in range(1, 60)]
assert set(ends) <= {{{name!r}, None}}, ends
print(ends.count({name!r}) > 10)
""") == ["True"]


def test_the_loop_parks_although_the_policy_of_an_ended_patch_is_left() -> None:
    assert says("""
async def parks():
    return getattr(asyncio.get_running_loop(), "parks", False)
asyncio.new_event_loop().close()
dhaga.monkey.unpatch()
assert type(asyncio.events._event_loop_policy) is dhaga.asyncio.DefaultEventLoopPolicy
print(dhaga.asyncio.run(parks()), asyncio.run(parks()))
""") == ["True False"]


@pytest.mark.parametrize("first", ["dhaga.await_(asyncio.sleep(0))", "asyncio.new_event_loop().close()"])
def test_the_loop_parks_although_a_policy_exists(first: str) -> None:
    assert prints(f"""
        import asyncio, warnings
        import dhaga, dhaga.asyncio
        warnings.simplefilter("ignore")
        async def parks():
            return getattr(asyncio.get_running_loop(), "parks", False)
        {first}
        print(dhaga.asyncio.run(parks()), dhaga.spawn(dhaga.asyncio.run, parks()).result(), asyncio.run(parks()))
    """) == ["True True False"]


def test_the_loops_of_a_programs_policy_are_used() -> None:
    assert prints("""
        import asyncio, warnings
        import dhaga.asyncio
        warnings.simplefilter("ignore")
        class Loop(asyncio.SelectorEventLoop):
            pass
        class Policy(dhaga.asyncio.StandardPolicy):
            _loop_factory = Loop
        asyncio.set_event_loop_policy(Policy())
        async def kind():
            return type(asyncio.get_running_loop()).__name__
        print(dhaga.asyncio.run(kind()))
    """) == ["Loop"]
