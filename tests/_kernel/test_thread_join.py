"""The join of a thread while the interpreter ends."""

from __future__ import annotations

import sys

import pytest

from tests.kit.scripts import prints


def test_a_finalizer_at_the_end_joins_a_thread_as_on_this_python() -> None:
    """Until 3.13 such a join waits for its timeout; since 3.14 it raises PythonFinalizationError."""
    program = """
        {patch}
        import threading

        class Owner:
            def __init__(self):
                self.thread = threading.Thread(target=threading.Event().wait, daemon=True)
                self.thread.start()

            def __del__(self):
                try:
                    self.thread.join(0.1)
                    print("waited")
                except RuntimeError as error:
                    print(type(error).__name__, error)

        owner = Owner()
    """
    assert_prints_alike(program)


@pytest.mark.skipif(sys.version_info < (3, 13), reason="_thread has no handles until Python 3.13")
def test_a_finalizer_at_the_end_joins_a_handle_as_on_this_python() -> None:
    program = """
        {patch}
        import _thread, operator
        from functools import partial

        class Owner:
            def __init__(self):
                gate, started = _thread.allocate_lock(), _thread.allocate_lock()
                gate.acquire()
                started.acquire()
                self.ended = _thread.start_joinable_thread(int)
                self.ended.join()
                # No Python frame: it would keep the module's globals, and so this object, until there is no stdout.
                calls = map(operator.call, [started.release, gate.acquire])
                self.alive = _thread.start_joinable_thread(partial(list, calls), daemon=True)
                started.acquire()

            def __del__(self):
                for handle, timeout in (self.ended, None), (self.alive, 0.1), (self.alive, "wrong"):
                    try:
                        print("waited", handle.join(timeout))
                    except (RuntimeError, TypeError) as error:
                        print(type(error).__name__)

        owner = Owner()
    """
    assert_prints_alike(program)


def assert_prints_alike(program: str) -> None:
    """Check that a program prints the same with and without the patch."""
    patched = prints(program.format(patch="from dhaga import monkey; monkey.patch()"))
    assert patched == prints(program.format(patch="")) != []
