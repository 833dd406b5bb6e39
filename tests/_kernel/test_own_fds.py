"""A program may close fds by number: those of schedulers are spared, or the program ends by an error."""

from __future__ import annotations

import errno
import os
import sys

import pytest

import dhaga
import dhaga.os
from dhaga._kernel.own_fds import own_fds, ranges_without_own
from tests.kit.scripts import prints, run

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the fds of a process are listed in /proc")


def test_parts_of_a_range_are_without_own_fds() -> None:
    former = set(own_fds)
    try:
        own_fds.clear()
        own_fds.update((5, 6, 9))
        assert ranges_without_own(3, 12) == [(3, 5), (6, 6), (7, 9), (10, 12)]
        assert ranges_without_own(10, 4) == [(10, 4)]
    finally:
        own_fds.clear()
        own_fds.update(former)


def test_the_fds_of_a_scheduler_are_own_ones_until_it_ends() -> None:
    dhaga.sleep(0)
    before = set(own_fds)
    with dhaga.Scheduler() as scheduler:
        scheduler.spawn(dhaga.sleep).join()
        assert len(own_fds - before) == 3 + (scheduler.poller.__class__.__name__ in ("Epoll", "Kqueue"))
    assert own_fds == before


def test_close_refuses_an_own_fd_as_one_that_is_not_open() -> None:
    dhaga.sleep(0)
    for fd in sorted(own_fds):
        with pytest.raises(OSError) as error:
            dhaga.os.close(fd)
        assert error.value.errno == errno.EBADF
    assert dhaga.spawn(lambda: dhaga.sleep(0.001) or 1).result() == 1


PROGRAM = """
import os, subprocess, threading, time
before = set(os.listdir("/proc/self/fd"))
import dhaga.monkey; dhaga.monkey.patch()
def uses_all():
    threading.Thread(target=time.sleep, args=(0.001,)).start()
    time.sleep(0.01)
    one, other = __import__("socket").socketpair()
    thread = threading.Thread(target=lambda: (time.sleep(0.01), other.send(b"x")))
    thread.start()
    one.recv(1)
    thread.join()
    subprocess.run(["true"], check=True)
    os.system("true")
uses_all()
"""


@pytest.mark.parametrize("close", ["os.closerange(3, 256)", "os.closerange(3, 9999)", "close_each()"])
def test_a_program_that_closes_its_other_files_goes_on(close: str) -> None:
    code = f"""{PROGRAM}
def close_each():
    for fd in range(3, 64):
        try:
            os.close(fd)
        except OSError:
            pass
{close}
uses_all()
print("went on")
"""
    assert prints(code) == ["went on"]


@pytest.mark.parametrize("number", range(6))
def test_an_fd_that_is_closed_behind_our_back_does_not_make_the_program_hang(number: int) -> None:
    """The fds of the selector, of the self-pipe, of the poller and of the pipe for signals."""
    code = f"""{PROGRAM}
from dhaga._iowait.fd_ops import standard_close
from dhaga._kernel.own_fds import own_fds
assert len(own_fds) == 6
print(os.readlink(f"/proc/self/fd/{{sorted(own_fds)[{number}]}}")[:10], flush=True)
standard_close(sorted(own_fds)[{number}])
time.sleep(0.01)
print("slept", flush=True)
os._exit(0)
"""
    outcome = run(code, DHAGA_POLLER="")
    if outcome.lines[0] == "anon_inode":  # an epoll
        assert outcome.status == 1 and "can run nothing any more" in outcome.err
    else:
        assert (outcome.status, outcome.lines[1:]) == (0, ["slept"]), outcome


def test_errors_of_handlers_do_not_count_as_failures_of_the_loop() -> None:
    code = """
        import os, signal, threading, time, dhaga
        from dhaga._kernel.process.current_scheduler import current_scheduler
        scheduler = current_scheduler()
        def raises(*_): raise OSError(9, "not the loop's")
        def strike():
            while not (scheduler.asleep and scheduler._selecting()):
                time.sleep(0.001)
            os.kill(os.getpid(), signal.SIGALRM)
        signal.signal(signal.SIGALRM, raises)
        caught = 0
        for _ in range(15):
            try:
                threading.Thread(target=strike).start()
                dhaga.sleep(10)
            except OSError:
                caught += 1
        print(caught)
    """
    assert prints(code) == ["15"]


def test_a_forked_child_may_close_what_the_parent_has_left() -> None:
    dhaga.sleep(0)
    reader, writer = os.pipe()
    pid = os.fork()
    if not pid:
        os.write(writer, str(len(own_fds)).encode())
        os._exit(0)
    os.waitpid(pid, 0)
    assert os.read(reader, 9) == b"0"
    os.close(reader)
    os.close(writer)


def test_a_daemon_that_is_started_without_standard_streams_may_open_them_later() -> None:
    """0, 1 and 2 are the next free numbers then: ``dup2`` would close the fds of a scheduler that had them."""
    code = f"""
        import os
        for fd in range(3):
            os.dup2(fd, 10 + fd)
            os.close(fd)
        exec({PROGRAM!r})
        from dhaga._kernel.own_fds import own_fds
        given = os.dup(10)
        null = os.open(os.devnull, os.O_RDWR)
        for fd in range(3):
            os.dup2(null, fd)
        uses_all()
        os.write(11, f"{{min(own_fds) > 2}} {{given < 3}}\\n".encode())
        os._exit(0)
    """
    assert prints(code) == ["True True"]
