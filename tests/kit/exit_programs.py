"""Programs that report, in each phase of an exit, what their threads, executors and timers still do.

They use only the standard library, and must always print what they print under plain Python.
"""

from __future__ import annotations

BEGIN = '''
import atexit, concurrent.futures, logging, multiprocessing.util, os, queue, sys, threading, time, weakref

requests, answers = queue.Queue(), queue.Queue()
done = []
leaving, gate = threading.Event(), threading.Event()


def tell(*words):
    """Write a line, to a file if the environment names one."""
    fd = os.open(os.environ["EXIT_LOG"], os.O_WRONLY | os.O_APPEND) if "EXIT_LOG" in os.environ else os.dup(1)
    os.write(fd, (" ".join(map(str, words)) + "\\n").encode())
    os.close(fd)


def serve():
    try:
        while True:
            answers.put(2 * requests.get())
    finally:
        tell("the daemon runs its finally")


def ask():
    requests.put(21)
    try:
        return answers.get(timeout=20)
    except queue.Empty:
        return "no answer"


def swallow():
    while True:
        try:
            queue.Queue().get()
        except BaseException as error:
            tell("a daemon gets", type(error).__name__)


def once_main_has_ended():
    threading.main_thread().join()
    while threading.main_thread().is_alive():
        time.sleep(0.01)
    gate.set()


def wait(name):
    gate.wait()
    done.append(name)


def start(function, *args, **options):
    thread = threading.Thread(target=function, args=args, **options)
    thread.start()
    return thread


def submit():
    try:
        return executor.submit(pow, 2, 5).result(20)
    except RuntimeError as error:
        return type(error).__name__


def run_thread():
    """Python 3.12 alone refuses threads that start during the exit."""
    if sys.version_info[:2] == (3, 12):
        return True
    thread = start(ran.append, 1)
    thread.join(20)
    return not thread.is_alive()


def report(phase):
    """Tell what still works; executors and main code take part in the phases in which their state is certain."""
    words = [phase, "daemon:", daemon.is_alive(), ask(), "| thread starts:", run_thread()]
    if phase not in ("executor", "timer"):
        words += ["| non-daemon:", non_daemon.is_alive(), "timer:", timer.is_alive(), sorted(done)]
        words += ["| executor:", submit(), sum(future.result(20) for future in futures)]
    words += ["| main:", threading.main_thread().is_alive(), "| daemons:", daemon.daemon, non_daemon.daemon]
    tell(*words)


class Handler(logging.Handler):
    def close(self):
        report("logging")


class Kept:
    pass


def report_in_executor():
    leaving.wait()
    report("executor")


def report_in_timer():
    gate.wait()
    report("timer")


def register(phase):
    if phase == "hook":
        threading._register_atexit(report, phase)
    elif phase == "executor":
        futures.append(executor.submit(lambda: report_in_executor() or 0))
    elif phase == "timer":
        threading.Timer(0.01, report_in_timer).start()
    elif phase == "atexit":
        atexit.register(report, phase)
    elif phase == "finalize":
        weakref.finalize(kept, report, phase)
    elif phase == "logging":
        kept.handler = Handler()
    elif phase == "multiprocessing":
        multiprocessing.util.Finalize(None, report, (phase,), exitpriority=10)


kept, ran = Kept(), []
daemon = start(serve, daemon=True)
start(swallow, daemon=True)
start(once_main_has_ended)
non_daemon = start(wait, "non-daemon")
timer = threading.Timer(0.01, wait, ["timer"])
timer.start()
executor = concurrent.futures.ThreadPoolExecutor(2)
futures = [executor.submit(pow, 2, number) for number in range(5)]
'''

END = """
threading._register_atexit(leaving.set)
tell("main code ends")
"""

PHASES = "hook", "executor", "timer", "multiprocessing", "logging", "finalize", "atexit"
"""The phases of an exit in which code of a program runs."""


def program(*phases: str) -> str:
    """Return a program that reports in some phases."""
    return BEGIN + "".join(f"register({phase!r})\n" for phase in phases) + END
