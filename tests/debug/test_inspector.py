"""What an inspector answers, to whom, and that the process that it serves is as it would be without it."""

from __future__ import annotations

import json
import os
import signal
import socket
import stat
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import greenlet
import pytest

import dhaga
from dhaga.debug import crowds, inspect, inspector, interest, places, trace
from dhaga.debug.asked import Line, NotAnswered
from dhaga.kernel.waiter import Waiter
from dhaga.locks import Lock
from tests import scripts


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    return tmp_path / "dhaga"


@pytest.fixture
def observed() -> Iterator[dhaga.Scheduler]:
    with dhaga.Scheduler("observed") as scheduler:
        yield scheduler


@pytest.fixture
def line() -> Iterator[Line]:
    with inspect(), Line(os.getpid()) as line:
        yield line


def park_all(scheduler: dhaga.Scheduler, *dhagas: dhaga.Dhaga) -> None:
    """Wait until all of them wait."""
    while not all(each.parked for each in dhagas):
        scheduler.spawn(dhaga.sleep, 0).join()


def settle(scheduler: dhaga.Scheduler) -> None:
    """Wait until a scheduler has come to all that it was called for."""
    settled = threading.Event()
    scheduler.call(settled.set)
    assert settled.wait(scripts.PATIENCE)


# ---- where it is


def test_the_socket_is_for_the_user_alone_and_goes_with_the_inspector(folder: Path) -> None:
    with inspect() as mine:
        assert mine is inspect()
        assert mine.path == folder / f"dhaga-{os.getpid()}.sock"
        modes = [stat.S_IMODE(path.stat().st_mode) for path in (folder, mine.path)]
        assert modes == [0o700, 0o600]
    assert not mine.path.exists()
    mine.stop()


@pytest.mark.parametrize("kind", ["open", "link"])
def test_a_folder_that_others_have_access_to_is_refused(folder: Path, tmp_path: Path, kind: str) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir(mode=0o700)
    if kind == "link":
        folder.symlink_to(elsewhere)
    else:
        elsewhere.rename(folder).chmod(0o711)
    with pytest.raises(
        PermissionError, match=r"nobody else can enter \(mode 0700\): remove it, or set XDG_RUNTIME_DIR"
    ):
        inspect()


def test_without_a_runtime_folder_the_one_for_temporary_files_serves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "none"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with inspect() as mine, Line(os.getpid()) as line:
        assert mine.path.parent == tmp_path / f"dhaga-{os.geteuid()}"
        assert line.ask("table")["pid"] == os.getpid()


def test_sockets_of_processes_that_were_killed_are_removed(folder: Path) -> None:
    with inspect() as mine:
        dead, own, other = folder / "dhaga-4194999.sock", mine.path, folder / "dhaga-notes.sock"
        with socket.socket(socket.AF_UNIX) as once:
            once.bind(str(dead))
        other.touch()
        places.sweep(folder)
        assert sorted(folder.iterdir()) == sorted([own, other])


def test_a_path_too_long_for_a_socket_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / ("x" * 100)).mkdir()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / ("x" * 100)))
    with pytest.raises(OSError, match="XDG_RUNTIME_DIR may name another directory"):
        inspect()
    assert inspector.inspector is None


def test_somebody_else_gets_no_answer(line: Line, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inspector.places, "peer", lambda guest: (1, os.geteuid() + 1, 1))
    with socket.socket(socket.AF_UNIX) as stranger:
        stranger.connect(str(inspect().path))
        with stranger.makefile() as lines:
            assert "its own user and root alone" in json.loads(lines.readline())["error"]
            assert lines.readline() == ""


# ---- what it answers


def test_a_table_counts_all_and_shows_those_in_which_the_filter_is_found(line: Line, observed: dhaga.Scheduler) -> None:
    lock = Lock()

    def hold() -> None:
        with lock:
            dhaga.sleep(60)

    park_all(observed, observed.spawn(hold, name="holder"))
    waiters = [observed.spawn(lock.acquire, name=name) for name in ("beta", "alpha")]
    park_all(observed, *waiters)
    answer = line.ask("table", sort="name")
    assert (answer["total"], answer["states"]) == (3, {"WAITING": 3})
    assert answer["reasons"] == [["lock.acquire", 2], ["sleep", 1]]
    assert [row["name"] for row in answer["rows"]] == ["alpha", "beta", "holder"]
    answer = line.ask("table", filter="LOCK.acq", sort="age", most=1)
    assert (answer["total"], answer["matching"]) == (3, 2)
    (row,) = answer["rows"]
    assert (row["name"], row["held_by"], row["scheduler"]) == ("beta", ["holder"], "observed")
    assert row["seconds"] >= 0
    observed.call(observed.cancel_all)


@pytest.mark.parametrize("sort", crowds.SORTS)
def test_rows_come_in_any_order_that_is_offered(line: Line, observed: dhaga.Scheduler, sort: str) -> None:
    for _ in range(3):
        observed.spawn(dhaga.sleep, 60)
    assert line.ask("table", sort=sort)["matching"] == 3
    observed.call(observed.cancel_all)


def test_those_who_wait_for_each_other_are_named(line: Line, observed: dhaga.Scheduler) -> None:
    locks = Lock(), Lock()

    def cross(first: Lock, second: Lock) -> None:
        with first:
            while not second.locked():
                dhaga.sleep(0)
            second.acquire()

    both = [observed.spawn(cross, *locks, name="left"), observed.spawn(cross, *locks[::-1], name="right")]
    park_all(observed, *both)
    while line.ask("table")["circles"] != [["left", "right"]]:
        pass
    assert "deadlock: left waits for right waits for left" in line.ask("dump")["text"]
    observed.call(observed.cancel_all)


def test_shares_tell_who_ran(line: Line, observed: dhaga.Scheduler) -> None:
    def compute() -> None:
        while True:
            sum(range(10_000))
            dhaga.sleep(0)

    observed.spawn(compute, name="computes", daemon=True)
    observed.spawn(dhaga.sleep, 60, name="sleeps", daemon=True)
    assert not line.ask("table")["measured"]
    while not (answer := line.ask("table"))["measured"] or not answer["rows"][0]["share"]:
        pass
    of = {row["name"]: row["share"] for row in answer["rows"]}
    assert of["computes"] > of["sleeps"]


def test_who_has_held_the_thread_since_before_the_question_has_all_of_the_time(
    line: Line, observed: dhaga.Scheduler
) -> None:
    let_go = []

    def hold() -> None:
        while not let_go:
            pass

    observed.spawn(hold, name="holds")
    while line.ask("table")["states"] != {"RUNNING": 1}:
        pass
    (row,) = line.ask("table")["rows"]
    assert (row["name"], row["share"]) == ("holds", 1.0)
    let_go.append(True)


def test_nothing_is_measured_or_traced_once_nobody_asks(
    line: Line, observed: dhaga.Scheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    unpark = Waiter.unpark
    line.ask("table")
    line.ask("trace")
    assert observed.spawn(greenlet.gettrace).result() is not None
    assert Waiter.unpark is not unpark
    monkeypatch.setattr(interest, "KEPT", 0)
    while observed.spawn(greenlet.gettrace).result() is not None or Waiter.unpark is not unpark:
        dhaga.sleep(0.01)


def test_the_trace_of_the_last_seconds_tells_who_ran(line: Line, observed: dhaga.Scheduler) -> None:
    def names() -> set[Any]:
        events = line.ask("trace", seconds=5)["traceEvents"]
        return {event["args"]["name"] for event in events if event["ph"] == "M"}

    names()
    observed.spawn(dhaga.sleep, 0, name="ran").join()
    while "ran" not in names():
        pass


def test_traces_do_not_disturb_each_other(observed: dhaga.Scheduler) -> None:
    unpark = Waiter.unpark
    first, second = trace(), trace()
    settle(observed)
    observed.spawn(dhaga.sleep, 0, name="both").join()
    first.stop()
    first.stop()
    settle(observed)
    observed.spawn(dhaga.sleep, 0, name="second").join()
    second.stop()
    settle(observed)
    observed.spawn(dhaga.sleep, 0, name="none").join()
    seen = [{getattr(who, "name", "hub") for note in each.notes for who in note[1:3]} for each in (first, second)]
    assert [names & {"both", "second", "none"} for names in seen] == [{"both"}, {"both", "second"}]
    assert Waiter.unpark is unpark


def test_a_dump_of_one_tells_where_it_is(line: Line, observed: dhaga.Scheduler) -> None:
    def sleep_here() -> None:
        dhaga.sleep(60)

    sleeper = observed.spawn(sleep_here, name="sleeper")
    park_all(observed, sleeper)
    text = line.ask("dump", ident=sleeper.ident)["text"]
    assert text.startswith("sleeper WAITING, waits for")
    assert "in sleep_here" in text
    observed.call(observed.cancel_all)


def test_a_dump_of_one_that_holds_its_thread_tells_where_that_is(
    line: Line, observed: dhaga.Scheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    let_go = []

    def hold() -> None:
        while not let_go:
            pass

    holder = observed.spawn(hold, name="holder")
    text = ""
    while "in hold" not in text:
        text = line.ask("dump", ident=holder.ident)["text"]
    assert text.startswith("holder RUNNING")
    let_go.append(True)


def test_a_dhaga_is_cancelled_and_nobody_else(line: Line, observed: dhaga.Scheduler) -> None:
    victim = observed.spawn(dhaga.sleep, 60, name="victim")
    other = observed.spawn(dhaga.sleep, 60)
    assert line.ask("cancel", ident=victim.ident) == {"name": "victim", "cancelled": True}
    with pytest.raises(dhaga.Cancelled, match="from outside of the process"):
        victim.result(10)
    assert other.is_alive()
    with pytest.raises(NotAnswered, match="it has ended, or is no dhaga"):
        line.ask("cancel", ident=victim.ident)
    with pytest.raises(NotAnswered, match="it has ended"):
        line.ask("dump", ident=victim.ident)
    observed.call(observed.cancel_all)


@pytest.mark.parametrize(
    ("question", "error"),
    [
        (b"what?", "a question is one line of JSON"),
        (b"[]", "a question is an object with an ask"),
        (b'{"ask": "exec"}', "there is nothing to ask by 'exec', but by table, dump"),
        (b'{"ask": "cancel"}', "missing a required argument: 'ident'"),
        (b'{"ask": "cancel", "ident": "1"}', "cancel takes no ident='1'"),
        (b'{"ask": "table", "self": 1}', "table takes no self=1"),
        (b'{"ask": "table", "sort": "size"}', "rows are sorted by share, waited"),
        (b'{"ask": "trace", "seconds": 1e9}', "at most 60 seconds"),
        (b'{"ask": []}', "there is nothing to ask by"),
    ],
)
def test_a_question_that_cannot_be_answered_is_refused_with_the_reason(line: Line, question: bytes, error: str) -> None:
    for _ in range(2):  # the line goes on
        line.socket.sendall(question + b"\n")
        assert error in json.loads(line.file.readline())["error"]


def test_one_who_goes_in_the_middle_leaves_others_their_answers(line: Line) -> None:
    for _ in range(50):
        with socket.socket(socket.AF_UNIX) as hasty:
            hasty.connect(str(inspect().path))
            hasty.sendall(b'{"ask": "table"}\n{"ask":')
    assert line.ask("table")["pid"] == os.getpid()


# ---- the process


LOCKED = """
    import dhaga
    from dhaga import debug
    from dhaga.locks import Lock
    debug.watch(60)  # the one that is there reports what a busy machine does
    lock = Lock()
    dhaga.spawn(lock.acquire).join()
    try:
        lock.acquire()
    except dhaga.Deadlock:
        print("deadlock")
    print(dhaga.debug.inspector.inspector.path.exists())
"""


def test_a_process_with_an_inspector_still_finds_deadlocks_and_ends(folder: Path) -> None:
    assert scripts.prints(LOCKED, DHAGA_DEBUG="1") == ["deadlock", "True"]
    assert list(folder.iterdir()) == []


FORKS = """
    import os
    import dhaga
    from dhaga import debug
    from dhaga.debug.asked import Line
    mine = debug.inspect()
    debug.serve()
    def answered():
        with Line(os.getpid()) as line:
            return line.ask("table")["pid"] == os.getpid()
    if pid := os.fork():
        os.waitpid(pid, 0)
        print("parent", answered(), len(debug.page.pages))
    else:
        print("child", answered(), debug.inspect().path != mine.path or debug.inspect() is mine, len(debug.page.pages))
        debug.inspect().stop()
        os._exit(0)
"""


def test_a_forked_child_answers_for_itself(folder: Path) -> None:
    options = ("-W", "ignore::DeprecationWarning")
    assert scripts.prints(FORKS, *options) == ["child True True 0", "parent True 1"]
    assert list(folder.iterdir()) == []


PATCHED = """
    import sys
    from dhaga import debug, monkey
    monkey.patch()
    debug.watch(60)
    import socket, threading
    from dhaga.debug.asked import Line
    asked = threading.Event()
    thread = threading.Thread(target=asked.wait, name="patched")
    thread.start()
    def ask():
        with Line(debug.inspect().pid) as line:
            print([row["name"] for row in line.ask("table")["rows"] if row["kind"] == "dhaga"])
    from dhaga import offload
    offload(ask)
    asked.set()
"""


def test_a_patched_program_is_looked_into_as_well() -> None:
    assert scripts.prints(PATCHED, DHAGA_DEBUG="1") == ["['patched']"]


def test_what_cannot_be_had_is_a_warning_and_the_program_goes_on(folder: Path) -> None:
    folder.mkdir(mode=0o755)
    outcome = scripts.run("import dhaga; print('goes on')", DHAGA_DEBUG="1", DHAGA_DUMP_SIGNAL="KILL")
    assert (outcome.status, outcome.lines) == (0, ["goes on"])
    assert "cannot be looked into as the environment asks for" in outcome.err


ENDS = """
    import dhaga
    from dhaga import debug
    debug.inspect()
    print(dhaga.spawn(dhaga.park, "for ever, outside of a deadlock", name="late").ident)
    dhaga.spawn(dhaga.sleep, 1000, name="sleeper")
    print("ready")
"""


def test_a_process_that_waits_for_dhagas_at_its_end_still_answers() -> None:
    program = scripts.Program(ENDS)
    try:
        assert program.process.stdout is not None
        ident = int(program.process.stdout.readline())
        program.interrupt_at("ready", signal.SIGCONT)
        deadline = time.monotonic() + scripts.PATIENCE
        text = ""
        while not ("in _shutdown" in text and "late WAITING" in text):
            assert time.monotonic() < deadline, text
            text = answer_of(program.process.pid, "dump")["text"]
        for _ in range(2):
            try:
                assert answer_of(program.process.pid, "table")["total"] == 3
            except NotAnswered as error:  # Python 3.12 begins no thread any more
                assert "at its end, where nothing can be measured any more" in str(error)
        answer_of(program.process.pid, "cancel", ident=ident)
        while "late WAITING" in answer_of(program.process.pid, "dump")["text"]:
            assert time.monotonic() < deadline
    finally:
        program.process.kill()
        program.outcome()


def answer_of(pid: int, ask: str, **arguments: Any) -> dict[str, Any]:
    with Line(pid) as line:
        return line.ask(ask, **arguments)
