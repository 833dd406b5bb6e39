"""The join of a thread while the interpreter ends."""

from __future__ import annotations

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
    patched = prints(program.format(patch="from dhaga import monkey; monkey.patch()"))
    assert patched == prints(program.format(patch="")) != []
