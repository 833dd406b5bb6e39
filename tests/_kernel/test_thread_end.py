"""The end of a plain OS thread: its dhagas end with it."""

from __future__ import annotations

from tests.kit.scripts import prints


def test_a_plain_thread_ends_its_dhagas_as_the_main_thread_does() -> None:
    """The dhagas run only in their thread: its join returns when they have ended. Its fds are closed."""
    assert prints("""
        import os, threading
        import dhaga

        def waited_for():
            dhaga.sleep(0.02)
            print("waited for")

        def daemon():
            try:
                dhaga.sleep(1000)
            finally:
                print("finally")

        def main_code():
            dhaga.spawn(waited_for)
            dhaga.spawn(daemon, daemon=True)
            dhaga.sleep(0)
            print("the thread's own code ends")

        before = len(os.listdir("/dev/fd"))
        for _ in range(2):
            thread = threading.Thread(target=main_code)
            thread.start()
            thread.join()
        print(len(os.listdir("/dev/fd")) - before, threading.active_count())
    """) == [*["the thread's own code ends", "waited for", "finally"] * 2, "0 1"]


def test_a_daemon_thread_with_dhagas_is_cut_off_in_silence() -> None:
    assert prints("""
        import threading
        import dhaga

        def main_code():
            dhaga.spawn(dhaga.sleep, 1000)
            dhaga.sleep(1000)

        threading.Thread(target=main_code, daemon=True).start()
        dhaga.sleep(0.05)
        print("end")
    """) == ["end"]
