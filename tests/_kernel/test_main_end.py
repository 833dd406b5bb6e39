"""The end of the main code, which threads wait for."""

from __future__ import annotations

from dhaga import spawn
from dhaga._kernel.process.main_end import MainEnd
from tests.kit.scripts import prints


def test_all_that_wait_for_the_end_are_woken_and_later_ones_do_not_wait() -> None:
    end = MainEnd()
    waiters = [spawn(end.wait) for _ in range(3)]
    assert end.wait(0.001) is False
    end.set()
    assert [waiter.result() for waiter in waiters] == [True] * 3
    assert end.wait() and end.reached


def test_dhagas_that_wait_for_the_main_code_end_before_exit_handlers_run() -> None:
    assert prints("""
        import atexit, os, threading
        import dhaga
        import dhaga.threading

        main = dhaga.threading.main_thread()

        def wait(name):
            main.join()
            print(name, main.is_alive())

        try:
            main.join()
        except RuntimeError as error:
            print(error)
        dhaga.spawn(wait, "dhaga")
        print(dhaga.spawn(lambda: main.join(0.001) or main.is_alive()).result())
        atexit.register(print, "exit handler")
        if os.fork():
            os.wait()
        print("main code ends", main.is_alive())
    """) == [
        *("cannot join current thread", "True"),
        *("main code ends True", "exit handler"),  # of the child, in which no other dhaga runs
        *("main code ends True", "dhaga False", "exit handler"),
    ]
