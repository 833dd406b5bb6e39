"""A patch that comes too late says for what, and does nothing; what does not matter is let be."""

from __future__ import annotations

from tests.kit.scripts import prints

TRY = """
    import dhaga.monkey
    try:
        dhaga.monkey.patch()
    except RuntimeError as error:
        assert type(error) is dhaga.monkey.PatchError
        print(str(error).replace("dhaga.monkey.patch() comes too late; call it before ", "")
              .replace(". Programs run by `python -m dhaga` are patched before their first line", ""))
    print(dhaga.monkey.is_patched())
"""


def test_a_thread_that_runs_is_named_with_what_it_runs() -> None:
    assert prints(
        """
    import _thread, sys, threading, time
    stop = threading.Event()

    class Work:
        def go(self):
            stop.wait()

    threading.Thread(target=Work().go, name="early").start()
    """
        + TRY
        + """
    stop.set()
    for thread in threading.enumerate()[1:]: thread.join()
    stop.clear()
    _thread.start_new_thread(stop.wait, ())
    _thread.start_new_thread(Work().go, ())
    while [frame.f_code.co_name for frame in sys._current_frames().values()].count("wait") < 2:
        time.sleep(0.001)
    """
        + TRY
        + """
    stop.set()
    """
    ) == [
        "the start of the OS thread 'early', which runs __main__.Work.go (<string>:6)",
        "False",
        "the start of an OS thread, which runs __main__.Work.go (<string>:6), and before the start of an OS thread",
        "False",
    ]


def test_a_module_that_has_derived_a_class_is_named() -> None:
    assert prints(
        """
    import sys, threading, types

    package = types.ModuleType("package.part")
    exec("import threading, socket\\nclass Own(threading.Thread): pass\\nclass More(Own): pass", vars(package))
    secured = types.ModuleType("secured")
    exec("import ssl\\nclass Secure(ssl.SSLSocket): pass", vars(secured))
    """
        + TRY
        + """
    class Mine(threading.local):
        pass
    """
        + TRY
    ) == [
        "`import package`, as package.part.Own is derived from threading.Thread, "
        "and before `import secured`, as secured.Secure is derived from socket.SocketType",
        "False",
        "`import package`, as package.part.Own is derived from threading.Thread, "
        "and before the classes of the program, as __main__.Mine is derived from threading.local, "
        "and before `import secured`, as secured.Secure is derived from socket.SocketType",
        "False",
    ]


def test_a_call_from_another_thread_is_refused() -> None:
    assert prints(f"""
    import threading

    def call():
        {TRY.replace(chr(10), chr(10) + "    ")}

    thread = threading.Thread(target=call, name="other")
    thread.start()
    thread.join()
    """) == ["the start of the OS thread 'other', in which it was called", "False"]


def test_our_own_threads_and_what_only_imports_are_let_be() -> None:
    assert prints(
        """
    import dhaga, queue, threading
    from threading import Lock, Thread

    class Ordered(queue.Queue):
        pass

    scheduler = dhaga.Scheduler().start()
    dhaga.offload(int)
    from dhaga._kernel.process import preemption_watcher
    preemption_watcher.turn_on()
    """
        + TRY
        + """
    own = Ordered()
    Thread(target=own.put, args=("by a dhaga",)).start()
    print(own.get(timeout=5))
    scheduler.stop()
    """
    ) == ["True", "by a dhaga"]
