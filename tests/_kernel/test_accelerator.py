"""The compiled parts: frame chunks kept for the next greenlets, and pure Python where they are missing."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from dhaga import debug
from dhaga._kernel.fast import accelerator

compiled = pytest.mark.skipif(
    not isinstance(accelerator.chunks, ModuleType), reason=f"pure: {accelerator.chunks!s:.5}…"
)
fast = pytest.mark.skipif(
    not isinstance(accelerator.fast_paths, ModuleType), reason=f"pure: {accelerator.fast_paths!s:.5}…"
)

BEGINNING = """
import json, os, sys, threading, time
import dhaga
from dhaga import debug
from dhaga._kernel.fast import accelerator

def figures():
    return debug.stats().frame_chunks

def join_to_the_end(thread):
    "Run a thread until the system has removed it: its chunks are freed at its very end, after a join() returns."
    thread.start()
    native = thread.native_id
    thread.join()
    while os.path.exists(f"/proc/self/task/{native}"):
        time.sleep(0.001)

def crowd(count):
    "Have so many dhagas parked at once, each within a frame of its own, and end them."
    def parked():
        dhaga.park("test")
    dhagas = [dhaga.spawn(parked) for _ in range(count)]
    dhaga.sleep(0)
    for each in dhagas:
        each.wake()
    for each in dhagas:
        each.join()

def tell(**what):
    print(json.dumps(what))
"""
"""The beginning of each program: figures are of a whole process, whose cap cannot be changed once it runs."""

SILENT = "import warnings; warnings.simplefilter('ignore')"
"""The beginning of a program that forks beside threads."""


def run(code: str, *arguments: str, before: str = "", **environ: str) -> dict[str, Any]:
    """Run a program in a fresh process; ``before``: code before the import of dhaga. Returns: the values it told."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if name not in ("DHAGA_PURE", "DHAGA_CHUNKS", "DHAGA_FAST_PATHS")
    }
    command = [sys.executable, "-c", f"{before}\n{BEGINNING}\n{code}", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, env=kept | environ)
    assert done.returncode == 0, done.stderr
    told: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return told


# ---- which parts run


def test_ci_tests_the_compiled_parts_unless_it_asks_for_pure_python() -> None:
    if os.environ.get("DHAGA_REQUIRE_SERVICES") == "1" and os.environ.get("DHAGA_PURE", "0") in ("", "0"):
        assert accelerator.describe().startswith("compiled (fast paths, up to ")


@pytest.mark.parametrize(
    ("environ", "why"),
    [
        ({"DHAGA_PURE": "1"}, "DHAGA_PURE is set"),
        (
            {"DHAGA_CHUNKS": "0", "DHAGA_FAST_PATHS": "0"},
            "frame chunks: DHAGA_CHUNKS=0; fast paths: DHAGA_FAST_PATHS=0",
        ),
        ({"DHAGA_PURE": "1", "DHAGA_CHUNKS": "5"}, "DHAGA_PURE is set"),
    ],
)
def test_the_environment_switches_all_off(environ: dict[str, str], why: str) -> None:
    assert str(accelerator.start(environ)) in why and str(accelerator.start_fast_paths(environ)) in why
    code = "crowd(10); tell(is_=accelerator.describe(), figures=figures(), loaded=MODULE in sys.modules)"
    found = run(code.replace("MODULE", "'dhaga._kernel.fast._frame_chunks'"), **environ)
    assert found == {"is_": f"pure Python ({why})", "figures": None, "loaded": False}


@compiled
@fast
@pytest.mark.parametrize(
    ("environ", "what"),
    [
        ({}, "compiled (fast paths, up to 1024 frame chunks kept)"),
        ({"DHAGA_CHUNKS": "0"}, "compiled (fast paths; frame chunks: DHAGA_CHUNKS=0)"),
        ({"DHAGA_FAST_PATHS": "0"}, "compiled (up to 1024 frame chunks kept; fast paths: DHAGA_FAST_PATHS=0)"),
    ],
)
def test_each_part_has_a_switch_of_its_own(environ: dict[str, str], what: str) -> None:
    assert run("crowd(10); tell(is_=accelerator.describe())", **environ) == {"is_": what}


@pytest.mark.parametrize("text", ["yes", "2", " 0", "off"])
def test_a_switch_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"DHAGA_FAST_PATHS=.*it takes 0, for Python only, or 1"):
        accelerator.start_fast_paths({"DHAGA_FAST_PATHS": text})


def test_a_module_that_is_missing_or_of_another_machine_leaves_pure_python(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str, package: str) -> ModuleType:
        raise ModuleNotFoundError(f"No module named {name}")

    def alien(name: str, package: str) -> ModuleType:
        raise ImportError("invalid ELF header")

    monkeypatch.setattr(accelerator, "import_module", missing)
    assert "C compiler" in str(accelerator.start({}))
    monkeypatch.setattr(accelerator, "import_module", alien)
    assert accelerator.start({}) == "not usable: invalid ELF header"


def test_another_implementation_is_pure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.implementation, "name", "graalpy")
    assert accelerator.start({}) == "this is graalpy"


@pytest.mark.parametrize("text", ["-1", "1.5", "many", "1000001", "²", " 5"])
def test_a_cap_that_is_no_number_of_chunks_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"DHAGA_CHUNKS=.*0 to 1000000; 0 for none"):
        accelerator.start({"DHAGA_CHUNKS": text, "DHAGA_PURE": "1"})


def test_the_statistics_say_what_runs() -> None:
    found = debug.stats()
    assert found.accelerator == accelerator.describe()
    assert (found.frame_chunks is None) is ("chunks kept" not in found.accelerator)


# ---- frame chunks


@compiled
def test_chunks_of_ended_dhagas_serve_the_next_ones() -> None:
    found = run("""
crowd(1000)
first = figures()
for _ in range(3):
    crowd(1000)
last = figures()
tell(cap=last.cap, hits=last.hits - first.hits, misses=last.misses - first.misses, kept=last.kept)
""")
    assert found["cap"] == accelerator.CHUNKS
    assert found["hits"] >= 3000
    assert found["misses"] <= 5
    assert 1000 <= found["kept"] <= found["cap"]


@compiled
def test_no_more_are_kept_than_the_cap_says() -> None:
    code = """
crowd(500)
first = figures()
crowd(500)
last = figures()
tell(kept=first.kept, hits=last.hits - first.hits, misses=last.misses - first.misses)
"""
    found = run(code, DHAGA_CHUNKS="7")
    assert found["kept"] == 7
    assert 7 <= found["hits"] < 20
    assert found["misses"] > 480


MAPPED = """
def mapped():
    with open("/proc/self/maps") as file:
        return sum(1 for line in file)

def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

def ended_one_by_one(count):
    "Have so many dhagas parked at once, and end one by one in any order, with a stop after each half."
    import random
    dhagas = [dhaga.spawn(dhaga.park, "test") for _ in range(count)]
    dhaga.sleep(0)
    random.Random(1).shuffle(dhagas)
    for half in dhagas[: count // 2], dhagas[count // 2 :]:
        for each in half:
            each.wake()
            each.join()
        yield
"""
"""Functions that return the number of the process's mappings, and its memory."""

emptying = pytest.mark.skipif(
    not sys.platform.startswith("linux") or os.sysconf("SC_PAGE_SIZE") > 16384, reason="chunks are unmapped here"
)


@compiled
@emptying
def test_above_the_cap_chunks_lose_their_memory_and_leave_the_mappings_whole() -> None:
    code = f"""
{MAPPED}
before, mappings = mapped(), []
for _ in ended_one_by_one(2000):
    mappings.append(mapped() - before)
tell(mappings=mappings, kept=figures().kept, emptied=figures().emptied)
"""
    found = run(code, DHAGA_CHUNKS="10")
    assert found["kept"] == 10
    assert 1980 <= found["emptied"] < 2100
    assert max(found["mappings"]) < 100  # 490 halfway if each chunk were unmapped


@compiled
@emptying
def test_the_addresses_of_emptied_chunks_serve_the_next_dhagas() -> None:
    code = f"""
{MAPPED}
crowd(1500)
first, size = figures(), resident()
for _ in range(3):
    crowd(1500)
last = figures()
tell(first=first.emptied, last=last.emptied, misses=last.misses - first.misses, grown=resident() - size)
"""
    found = run(code, DHAGA_CHUNKS="10")
    assert 1480 <= found["first"] < 1600
    assert abs(found["last"] - found["first"]) < 5
    assert found["misses"] > 4000
    assert found["grown"] < 4_000_000  # 18 MB if their memory stayed


@compiled
@emptying
def test_emptied_chunks_can_be_given_back_and_go_with_their_thread() -> None:
    code = """
def in_thread():
    crowd(700)
    inside.append(figures().emptied)

crowd(700)
inside = [figures().emptied]
join_to_the_end(threading.Thread(target=in_thread))
inside.append(figures().emptied)
accelerator.chunks.give_back()
inside.append(figures().emptied)
crowd(700)
tell(inside=inside, again=figures().emptied)
"""
    found = run(code, DHAGA_CHUNKS="10")
    main, both, main_again, none = found["inside"]
    assert 680 <= main < 800
    assert both - main >= 680
    assert (main_again, none) == (main, 0)
    assert found["again"] >= 680


@compiled
@emptying
def test_locked_memory_is_unmapped_as_it_cannot_be_emptied() -> None:
    code = """
import ctypes
locked = ctypes.CDLL(None).mlockall(3) == 0  # now and later
crowd(200)
tell(locked=locked, kept=figures().kept, emptied=figures().emptied)
"""
    found = run(code, DHAGA_CHUNKS="10")
    if not found["locked"]:
        pytest.skip("this process may not lock its memory")
    assert (found["kept"], found["emptied"]) == (10, 0)


@compiled
def test_frames_that_need_more_than_a_chunk_get_it_from_the_former_allocator() -> None:
    found = run("""
def deep(n):
    a = b = c = d = e = f = n
    return (0 if not n else deep(n - 1)) + a
wide = eval(f"lambda: [{', '.join(['len'] * 5000)}]")  # a stack of 5,000 entries: a chunk of 64 KB
for _ in range(50):
    assert dhaga.spawn(deep, 500).result() == 125250
    assert len(dhaga.spawn(wide).result()) == 5000
f = figures()
tell(kept=f.kept, hits=f.hits)
""")
    assert found["hits"] > 100
    assert 1 <= found["kept"] < 60


@compiled
def test_kept_chunks_can_be_given_back() -> None:
    found = run("""
crowd(300)
before = figures().kept
count = accelerator.chunks.give_back()
after = figures().kept
crowd(300)
tell(before=before, count=count, after=after, again=figures().kept)
""")
    assert found["count"] == found["before"] >= 300
    assert found["after"] == 0
    assert found["again"] >= 300


@compiled
def test_each_os_thread_keeps_up_to_the_cap_and_none_after_its_end() -> None:
    code = """
def in_thread():
    crowd(40)
    kept.append(figures().kept)
    crowd(40)
    kept.append(figures().kept)

crowd(40)
before, kept = figures(), []
thread = threading.Thread(target=in_thread)
join_to_the_end(thread)
after = figures()
tell(before=before.kept, kept=kept, after=after.kept, hits=after.hits - before.hits,
     misses=after.misses - before.misses)
"""
    found = run(code, DHAGA_CHUNKS="20")
    assert (found["before"], found["kept"], found["after"]) == (20, [40, 40], 20)
    assert found["hits"] >= 20 and found["misses"] >= 60


@compiled
def test_a_thread_gives_back_its_own_chunks_alone() -> None:
    found = run("""
def in_thread():
    counts.append(accelerator.chunks.give_back())
    crowd(30)
    counts.append(accelerator.chunks.give_back())

crowd(60)
before, counts = figures().kept, []
thread = threading.Thread(target=in_thread)
join_to_the_end(thread)
tell(before=before, counts=counts, after=figures().kept)
""")
    assert found["after"] == found["before"] >= 60
    first, second = found["counts"]
    assert first < 5 and second >= 30


@compiled
@pytest.mark.parametrize(("figure", "cap"), [("kept", 1024), pytest.param("emptied", 10, marks=emptying)])
def test_a_forked_child_frees_the_chunks_of_other_threads(figure: str, cap: int) -> None:
    code = """
parked, over = threading.Event(), threading.Event()

def figure():
    return getattr(figures(), sys.argv[1])

def in_thread():
    crowd(600)
    parked.set()
    over.wait()

thread = threading.Thread(target=in_thread)
thread.start()
parked.wait()
crowd(100)
parent = figure()
pid = os.fork()
if pid == 0:
    ours, hits = figure(), figures().hits
    crowd(100)
    served = figures().hits - hits >= min(100, figures().cap) and figure() == ours
    accelerator.chunks.give_back()
    os._exit(0 if ours < parent - 500 and served and figure() == 0 else 1)
status = os.waitpid(pid, 0)[1]
over.set()
thread.join()
tell(status=status)
"""
    assert run(code, figure, before=SILENT, DHAGA_CHUNKS=str(cap))["status"] == 0


@compiled
def test_a_second_install_changes_nothing() -> None:
    found = run("""
second = accelerator.chunks.install(3)
crowd(10)
try:
    accelerator.chunks.install(-1)
except ValueError as error:
    tell(second=second, cap=figures().cap, in_front=figures().in_front, error=str(error))
""")
    assert found == {
        "second": False,
        "cap": accelerator.CHUNKS,
        "in_front": True,
        "error": "install(): the cap of kept chunks must not be negative",
    }


ARENA = """
import ctypes

class Allocator(ctypes.Structure):
    _fields_ = [("context", ctypes.c_void_p), ("alloc", ctypes.c_void_p), ("free", ctypes.c_void_p)]

def current():
    found = Allocator()
    ctypes.pythonapi.PyObject_GetArenaAllocator(ctypes.byref(found))
    return found

def use(allocator):
    ctypes.pythonapi.PyObject_SetArenaAllocator(ctypes.byref(allocator))

default = current()
"""
"""Code to run before dhaga is imported."""


@compiled
def test_an_allocator_that_is_installed_later_and_passes_nothing_on_does_no_harm() -> None:
    code = """
crowd(100)
ours = current()
use(default)
before = figures()
crowd(100)
away = figures()
second = accelerator.chunks.install(5)
described = accelerator.describe()
use(ours)
crowd(100)
back = figures()
tell(in_front=[before.in_front, back.in_front], same=(away.hits, away.kept) == (before.hits, before.kept),
     second=second, described=described, again=back.hits - away.hits)
"""
    found = run(code, before=ARENA)
    assert found["in_front"] == [False, True]
    assert found["same"]
    assert not found["second"]
    assert "behind another arena allocator" in found["described"]
    assert found["again"] >= 100


CHURN = """
#include <stddef.h>
#include <sys/mman.h>
void churn(void *take(void *, size_t), void give(void *, void *, size_t), volatile char *stop) {
    void *chunk = mmap(NULL, 16384, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (give(NULL, chunk, 16384); !*stop; give(NULL, chunk, 16384)) chunk = take(NULL, 16384);
}
"""
"""Takes and frees a chunk without the interpreter lock, so that a fork finds another thread within the allocator."""


@compiled
@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
def test_a_forked_child_goes_on_with_the_chunks(tmp_path: Path) -> None:
    (tmp_path / "churn.c").write_text(CHURN)
    library = tmp_path / "churn.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, tmp_path / "churn.c"], check=True)
    code = """
crowd(100)
ours = current()
stop = ctypes.create_string_buffer(1)
arguments = (ctypes.c_void_p(ours.alloc), ctypes.c_void_p(ours.free), stop)
threads = [threading.Thread(target=ctypes.CDLL(sys.argv[1]).churn, args=arguments) for _ in range(2)]
for each in threads:
    each.start()
ends = []
for _ in range(10):
    pid = os.fork()
    if pid == 0:
        before = figures().hits
        crowd(50)
        os._exit(0 if figures().hits - before >= 50 else 1)
    ends.append(os.waitpid(pid, 0)[1])
stop[0] = b"x"
for each in threads:
    each.join()
tell(ends=ends)
"""
    assert run(code, str(library), before=f"{SILENT}\n{ARENA}")["ends"] == [0] * 10


STRESS = """
import random, time
from greenlet import greenlet, getcurrent

def deep(n, salt):
    values = [salt, n, salt ^ n]
    if n:
        assert deep(n - 1, salt) == salt
    elif type(getcurrent()) is greenlet and getcurrent().parent is not None:
        getcurrent().parent.switch()
    elif type(getcurrent()) is dhaga.Dhaga:
        dhaga.sleep(0)
    assert values == [salt, n, salt ^ n]
    return values[0]

def threads_end():
    while running:
        group = [threading.Thread(target=short, args=(n,)) for n in range(8)]
        for each in group:
            each.start()
        for each in group:
            each.join()

def short(n):
    deep(n * 20, n)
    greenlet(deep).switch(5, n)  # never finished: it is dropped while suspended

def greenlets(salt):
    rng = random.Random(salt)
    while running:
        group = [greenlet(deep) for _ in range(rng.randrange(1, 200))]
        for n, each in enumerate(group):
            each.switch(rng.choice((0, 3, 400)), n)
        rng.shuffle(group)
        for each in group:
            each.switch()
        ended.append(len(group))

def dhagas():
    while running:
        group = [dhaga.spawn(deep, n % 50, n) for n in range(100)]
        assert [each.result() for each in group] == list(range(100))
        ended.append(100)

running, failed, ended = True, [], []
threading.excepthook = failed.append
threads = [threading.Thread(target=threads_end) for _ in range(2)]
threads += [threading.Thread(target=greenlets, args=(n,)) for n in range(2)]
threads += [threading.Thread(target=dhagas) for _ in range(2)]
for each in threads:
    each.start()
end = time.monotonic() + SECONDS
while time.monotonic() < end or figures().hits <= 100 or sum(ended) <= 100:
    crowd(200)
running = False
for each in threads:
    each.join()
while figures().kept > figures().cap and time.monotonic() < end + 20:
    time.sleep(0.001)  # until 3.12 a join may return before the OS thread has ended, whose chunks still count
f = figures()
tell(kept=f.kept, cap=f.cap, hits=f.hits, ended=sum(ended), failed=len(failed))
"""


@compiled
@pytest.mark.parametrize("seconds", [1, pytest.param(10, marks=pytest.mark.slow)])
@pytest.mark.parametrize("cap", ["50", "1024"])
def test_threads_that_end_beside_spawns_keep_no_more_than_they_may(seconds: int, cap: str) -> None:
    found = run(STRESS.replace("SECONDS", str(seconds)), DHAGA_CHUNKS=cap)
    assert found["failed"] == 0
    assert found["cap"] == int(cap)
    assert found["kept"] <= found["cap"]  # those of the main thread: the others have ended
    assert found["hits"] > 100
    assert found["ended"] > 100


SUBINTERPRETERS = """
try:
    import _interpreters as interpreters
except ImportError:
    import _xxsubinterpreters as interpreters
crowd(20)
code = f'''
from importlib.machinery import ExtensionFileLoader
from importlib.util import module_from_spec, spec_from_loader
loader = ExtensionFileLoader("_frame_chunks", {accelerator.chunks.__file__!r})
module = module_from_spec(spec_from_loader("_frame_chunks", loader))
loader.exec_module(module)
assert module.install(5) is False
assert module.figures()[0] is True
assert module.figures()[2] == 1024
def deep(n): return n and deep(n - 1)
before = module.figures()
for _ in range(20):
    deep(500)
assert sum(module.figures()[3:5]) > sum(before[3:5])  # the chunks above its first one
'''
for _ in range(3):
    made = interpreters.create()
    failed = interpreters.run_string(made, code)
    assert failed is None, failed
    interpreters.destroy(made)
crowd(20)
tell(kept=figures().kept, in_front=figures().in_front)
"""


@compiled
def test_subinterpreters_share_what_is_installed() -> None:
    found = run(SUBINTERPRETERS)
    assert found["in_front"]
    assert found["kept"] >= 20


@compiled
def test_chunks_are_used_to_the_very_end_of_the_interpreter() -> None:
    code = """
import atexit
class Late:
    def __del__(self):
        def deep(n):
            return n and deep(n - 1)
        deep(300)  # the second chunk of the main thread is taken and freed while modules are cleared
atexit.register(crowd, 50)
sys.late = Late()
crowd(50)
tell()
"""
    assert run(code) == {}
