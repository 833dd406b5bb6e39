"""Packages that wait for time, files, or devices: 20 threads wait at once, and go on when the main one lets them."""

import os
import sys
import tempfile
import threading
import time

COUNT = 20
folder = tempfile.mkdtemp()
waiting = threading.Semaphore(0)
open_gate = threading.Event()


def filelock():
    import filelock

    held = filelock.FileLock(f"{folder}/lock")
    held.acquire()

    def wait(n):
        waiting.release()
        with filelock.FileLock(f"{folder}/lock", timeout=20, poll_interval=0.01):
            assert open_gate.is_set()

    return wait, held.release


def pexpect():
    import pexpect

    consoles = [pexpect.spawn("cat", timeout=30) for _ in range(COUNT)]

    def wait(n):
        waiting.release()
        consoles[n].expect_exact(f"line {n}")
        consoles[n].sendeof()
        consoles[n].expect(pexpect.EOF)
        assert consoles[n].wait() == 0  # a close right behind the EOF hangs up on a cat that has not ended yet
        consoles[n].close()

    def type_lines():
        for n, console in enumerate(consoles):
            console.sendline(f"line {n}")

    return wait, type_lines


def schedule():
    import schedule

    def wait(n):
        scheduler = schedule.Scheduler()
        scheduler.every(0.01).seconds.do(waiting.release)
        while not open_gate.is_set():
            scheduler.run_pending()
            time.sleep(0.01)

    return wait, None


def serial():
    import pty

    import serial

    ends = [pty.openpty() for _ in range(COUNT)]

    def wait(n):
        with serial.Serial(os.ttyname(ends[n][1]), timeout=20) as port:
            waiting.release()
            assert port.read(2) == b"ab"

    def feed():
        for master, _ in ends:
            os.write(master, b"ab")

    return wait, feed


def tenacity():
    import tenacity

    @tenacity.retry(wait=tenacity.wait_fixed(0.01), stop=tenacity.stop_after_delay(20))
    def wait(n):
        if not open_gate.is_set():
            waiting.release()
            raise OSError

    return wait, None


def watchdog():
    from watchdog.events import FileSystemEventHandler
    from watchdog.observers import Observer

    def wait(n):
        seen = threading.Event()

        class Handler(FileSystemEventHandler):
            def on_created(self, event):
                seen.set()

        observer = Observer()
        observer.schedule(Handler(), folder)
        observer.start()
        waiting.release()
        assert seen.wait(30)
        observer.stop()
        observer.join()

    return wait, lambda: open(f"{folder}/new", "w").close()


wait, let_go = globals()[sys.argv[1]]()
failures = []


def work(n):
    try:
        wait(n)
    except BaseException as error:
        failures.append(error)


threads = [threading.Thread(target=work, args=(n,)) for n in range(COUNT)]
for thread in threads:
    thread.start()
for _ in range(COUNT):
    assert waiting.acquire(timeout=30)
open_gate.set()
if let_go is not None:
    let_go()
for thread in threads:
    thread.join()
assert not failures, failures
print("peak", COUNT)
