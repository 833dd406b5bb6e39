"""The program's wakeup fd gets one byte for each signal, also for one that is held off and sent again."""

from __future__ import annotations

import signal

import pytest

from dhaga._kernel.platform.system import system
from dhaga._kernel.process import wakeup_detour
from tests.kit.scripts import prints

BEGIN = """
    import os, signal, sys, time
    import dhaga, dhaga.signal
    from dhaga._kernel.process import wakeup_detour
    from dhaga._kernel.process.signals import hold_off

    reader, writer = os.pipe()
    other_reader, other_writer = os.pipe()
    for fd in (reader, writer, other_reader, other_writer):
        os.set_blocking(fd, False)
    calls = []
    for number in (signal.SIGUSR1, signal.SIGUSR2):
        dhaga.signal.signal(number, lambda number, frame: calls.append(number))
    own_frame = eval("sys._getframe()", {"__name__": "dhaga.module", "sys": sys})

    def held_off(number):
        # As when C has written its byte, and called the handler in our code.
        os.write(writer, bytes([number]))
        assert hold_off(number, own_frame)

    def wait_until(condition):
        while not condition():
            time.sleep(0.001)

    def numbers(fd=reader):
        try:
            return sorted(os.read(fd, 1000))
        except BlockingIOError:
            return []
"""


def test_a_signal_that_is_sent_again_writes_no_second_byte() -> None:
    code = (
        BEGIN
        + """
    for _ in range(3):
        dhaga.signal.set_wakeup_fd(writer)
        held_off(signal.SIGUSR1)
        signal.raise_signal(signal.SIGUSR2)  # its byte goes the other way round
        wait_until(lambda: signal.SIGUSR1 in calls)
        print(numbers() == [signal.SIGUSR1, signal.SIGUSR2], len(calls))
        calls.clear()
        print(signal.set_wakeup_fd(-1) == writer, wakeup_detour.resends)
        dhaga.sleep(0)  # makes a scheduler, whose own fd is not the program's
    """
    )
    assert prints(code) == ["True 2", "True []"] * 3


def test_a_signal_that_no_byte_announces_is_sent_until_its_handler_is_called(monkeypatch: pytest.MonkeyPatch) -> None:
    """A signal may come just before a system call begins, and not end it. Without a detour the byte ends the call."""
    resend, kills = wakeup_detour.Resend(signal.SIGUSR1), []

    def kill(_: int, number: int) -> None:
        kills.append(number)
        resend.arrived = len(kills) == 3

    monkeypatch.setattr(system, "send_signal", kill)
    monkeypatch.setattr(signal, "getsignal", lambda number: print)
    monkeypatch.setattr(wakeup_detour, "diverted", [1])
    resend.send(0)
    assert kills == [signal.SIGUSR1] * 3 and resend.arrived
    kills.clear()
    resend.arrived = False
    monkeypatch.setattr(wakeup_detour, "diverted", [])
    resend.send(0)
    assert kills == [signal.SIGUSR1] and resend.arrived


def test_the_fd_of_a_scheduler_keeps_its_place() -> None:
    """Its byte ends the sleep of the loop."""
    code = (
        BEGIN
        + """
    dhaga.sleep(0)
    own = signal.set_wakeup_fd(-1)
    signal.set_wakeup_fd(own)
    held_off(signal.SIGUSR1)
    print(wakeup_detour.diverted, signal.set_wakeup_fd(own) == own)
    wait_until(lambda: calls)
    print(signal.set_wakeup_fd(own) == own)
    """
    )
    assert prints(code) == ["[] True", "True"]


def test_an_fd_that_the_program_sets_meanwhile_stays() -> None:
    code = (
        BEGIN
        + """
    for set_wakeup_fd in (signal.set_wakeup_fd, dhaga.signal.set_wakeup_fd):
        signal.set_wakeup_fd(writer)
        held_off(signal.SIGUSR1)
        set_wakeup_fd(other_writer)
        wait_until(lambda: calls)
        print(signal.set_wakeup_fd(-1) == other_writer)
        calls.clear()
    """
    )
    assert prints(code) == ["True"] * 2


def test_a_handler_that_is_removed_before_the_signal_is_sent_again_gives_the_fd_back() -> None:
    code = (
        BEGIN
        + """
    signal.set_wakeup_fd(writer)
    held_off(signal.SIGUSR1)
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    wait_until(lambda: wakeup_detour.resends[0].arrived)
    dhaga.signal.signal(signal.SIGUSR1, signal.SIG_DFL)
    print(signal.set_wakeup_fd(-1) == writer, numbers() == [signal.SIGUSR1], wakeup_detour.resends)
    """
    )
    assert prints(code) == ["True True []"]


@pytest.mark.parametrize("handler", ["lambda number, frame: others.append(number)", "signal.SIG_DFL"])
def test_a_signal_that_has_come_is_handled_before_another_handler_is_set(handler: str) -> None:
    """The standard function does the same. Sent again afterwards, it would reach the new handler or end the process."""
    code = (
        BEGIN
        + f"""
    signal.set_wakeup_fd(writer)
    others = []
    for _ in range(20):
        held_off(signal.SIGUSR1)
        held_off(signal.SIGUSR1)
        former = dhaga.signal.signal(signal.SIGUSR1, {handler})
        assert set(calls) == {{signal.SIGUSR1}}, calls
        calls.clear()
        time.sleep(0.001)  # the threads that send again run
        dhaga.signal.signal(signal.SIGUSR1, former)
    print(others, calls, wakeup_detour.resends, signal.set_wakeup_fd(-1) == writer)
    """
    )
    assert prints(code) == ["[] [] [] True"]


def test_a_forked_child_has_the_fd_of_the_program() -> None:
    code = (
        BEGIN
        + """
    signal.set_wakeup_fd(writer)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
    held_off(signal.SIGUSR1)
    pid = os.fork()
    if not pid:
        print(signal.set_wakeup_fd(-1) == writer, wakeup_detour.resends, flush=True)
        os._exit(0)
    os.waitpid(pid, 0)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGUSR1})
    wait_until(lambda: calls)
    print(numbers() == [signal.SIGUSR1])
    """
    )
    assert prints(code, "-W", "ignore") == ["True []", "True"]


def test_a_program_that_counts_bytes_counts_each_signal_once_wherever_it_strikes() -> None:
    code = """
        import os, signal, sys, threading, time
        import dhaga.monkey; dhaga.monkey.patch()
        import dhaga
        from dhaga._kernel import originals

        reader, writer = os.pipe()
        for fd in (reader, writer):
            os.set_blocking(fd, False)
        calls = []
        signal.signal(signal.SIGUSR1, lambda *_: calls.append(1))
        signal.set_wakeup_fd(writer)
        sent = 0

        def send():
            global sent
            for sent in range(1, 31):
                os.kill(os.getpid(), signal.SIGUSR1)
                while len(calls) < sent:
                    originals.thread_sleep(0.0002)

        sender = originals.Thread(target=send)
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
        sender.start()
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGUSR1})
        lock = threading.Lock()
        while sender.is_alive():
            with lock:
                dhaga.sleep(0)
        signal.set_wakeup_fd(-1)
        print(sent, len(calls), os.read(reader, 1000).count(signal.SIGUSR1))
    """
    assert prints(code) == ["30 30 30"]
