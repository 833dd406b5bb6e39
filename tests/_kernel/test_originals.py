"""Originals: functions that were taken from the standard library work as before under a patch."""

from __future__ import annotations

import threading

import pytest

from dhaga._kernel import originals
from tests.kit.scripts import prints


def test_a_function_that_is_kept_looks_its_names_up_in_its_own_namespace(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = originals.unpatched(threading.main_thread)
    monkeypatch.setattr(threading, "_main_thread", "replaced")
    assert threading.main_thread() == kept() == "replaced"
    monkeypatch.setitem(originals.namespaces["threading"], "_main_thread", "as before")
    assert kept() == "as before"
    assert (kept.__name__, kept.__doc__) == ("main_thread", threading.main_thread.__doc__)


def test_what_is_missing_is_no_attribute_and_no_hidden_one() -> None:
    with pytest.raises(KeyError, match="no_such_name"):
        originals.namespaces["threading"]["no_such_name"]


@pytest.mark.parametrize("hub", ["gevent", "eventlet.green"])
def test_another_patch_that_is_there_at_the_import_is_refused_with_the_way_out(hub: str) -> None:
    assert prints(f"""
        import socket, threading
        def current_thread(): "Stands for what the other patch puts there."
        current_thread.__module__ = "{hub}.threading"
        threading.current_thread = current_thread
        try:
            import dhaga
        except RuntimeError as error:
            print(type(error).__name__, str(error).partition(" (")[0], "--as {hub.partition(".")[0]} ..." in str(error))
    """) == [f"PatchError {hub.partition('.')[0]} has patched this program already True"]


def test_the_kernels_threads_and_pairs_are_the_standard_ones_in_a_patched_program() -> None:
    assert prints(
        """
        import dhaga.monkey
        dhaga.monkey.patch()
        import dhaga, socket, threading
        from dhaga._kernel import originals
        print(threading.Thread.__module__, originals.Thread.__module__)
        pair = originals.socketpair()
        print({type(end).__module__ for end in pair}, type(socket.socketpair()[0]).__module__)
        for end in pair: end.close()
        threading.Thread(target=lambda: print(originals.current_thread() is originals.main_thread())).start()
        name = lambda: print(originals.thread_name(originals.get_ident()))
        originals.Thread(target=name, name="plain").start()
    """,
        "-W",
        "ignore::ResourceWarning",
    ) == ["dhaga.threading threading", "{'socket'} dhaga.socket", "True", "plain"]
