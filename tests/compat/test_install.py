"""gevent's name for Dhaga's package: in this process alone, and never beside the real one."""

from __future__ import annotations

import pytest

from dhaga import compat
from dhaga.__main__ import main
from tests.kit.scripts import prints


def test_an_import_finds_the_package_and_its_modules_under_both_names() -> None:
    code = """
        import dhaga.compat
        dhaga.compat.install("gevent")
        import gevent.pool, gevent.event
        from gevent.queue import Channel
        from gevent import socket, monkey
        import dhaga.compat.gevent.pool
        print(gevent.pool is dhaga.compat.gevent.pool, gevent.event.Event().is_set(), dhaga.compat.installed())
        print(gevent.__version__.endswith("+dhaga"), gevent.__spec__.name, gevent.__name__, socket.__name__)
        try:
            import gevent.nothing
        except ModuleNotFoundError as error:
            print(error)
    """
    assert prints(code) == [
        "True False frozenset({'gevent'})",
        "True dhaga.compat.gevent gevent gevent.socket",
        "No module named 'gevent.nothing'",
    ]


def test_behind_the_real_import_it_is_too_late() -> None:
    code = """
        import sys, types
        sys.modules["gevent"] = types.ModuleType("gevent")
        import dhaga.compat
        try:
            dhaga.compat.install("gevent")
        except ImportError as error:
            print(error.name, "imported already" in str(error), dhaga.compat.installed())
    """
    assert prints(code) == ["gevent True frozenset()"]


@pytest.mark.parametrize(("names", "answers"), [("", 17), ("'gevent'", 1), ("'eventlet'", 1)])
def test_a_select_lets_others_run_at_each_call(names: str, answers: int) -> None:
    code = f"""
        import dhaga.compat
        dhaga.compat.install({names})
        import dhaga
        from dhaga import select, socket
        one, two = socket.socketpair()
        two.send(b"x")
        other, answers = dhaga.spawn(int), 0
        while other.is_alive():
            assert select.select([one], [], [], 5)[0] == [one]
            answers += 1
        print(answers)
    """
    assert prints(code) == [str(answers)]


def test_no_other_package_can_be_named() -> None:
    with pytest.raises(ValueError, match="'gevent' and 'eventlet', not 'trio'"):
        compat.install("trio")


def test_the_patch_takes_it_for_no_hub_of_another_before_or_after() -> None:
    code = """
        import warnings
        warnings.simplefilter("error")
        import dhaga.compat, dhaga.monkey
        dhaga.compat.install("gevent")
        import gevent.monkey
        gevent.monkey.patch_all()
        print(dhaga.monkey.is_patched(), gevent.monkey.is_module_patched("socket"))
        dhaga.monkey.unpatch()
        dhaga.monkey.patch()
        dhaga.monkey.unpatch()
    """
    assert prints(code) == ["True True"]


def test_an_import_into_a_patched_program_is_not_warned_of() -> None:
    code = """
        import warnings
        warnings.simplefilter("error")
        import dhaga.compat, dhaga.monkey
        dhaga.compat.install("gevent")
        dhaga.monkey.patch()
        import gevent
        print(gevent.spawn(int).get())
    """
    assert prints(code) == ["0"]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--as", "trio", "x.py"], "--as takes gevent or eventlet, not 'trio'"),
        (["--as"], "--as takes gevent or eventlet, not ''"),
        (["--as=gevent"], "a program is expected after the options"),
        (["--as", "gevent", "--as", "eventlet", "nothing.py"], "nothing.py"),
    ],
)
def test_the_command_tells_what_it_takes(arguments: list[str], text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    assert text in capsys.readouterr().err


IDENTS = """
    import dhaga, dhaga.threading, threading
    early = dhaga.spawn(dhaga.threading.get_ident)
    import dhaga.compat
    dhaga.compat.install("{package}")
    print(early.result() == early.ident)
    {patch}
    import _thread, signal, sys, time
    from {package} import getcurrent, spawn
    from {module} import get_ident
    def look():
        ident, me = id(getcurrent()), threading.current_thread()
        print(threading.get_ident() == _thread.get_ident() == get_ident() == me.ident == ident,
            threading._active[ident] is me, getattr(me, "_ident") == ident)
        return ident
    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
    greenlet = spawn(look)
    ended = greenlet.{get}()
    started = []
    number = _thread.start_new_thread(lambda: started.append(threading.get_ident()), ())
    time.sleep(0)
    print(started == [number], [*threading._active] == [threading.main_thread().ident], threading._active.by_number)
    print(threading.get_ident() == threading.main_thread().ident, threading.get_ident() in sys._current_frames())
    waiting = threading.Thread(target=time.sleep, args=(60,), daemon=True)
    waiting.start()
    signal.pthread_kill(waiting.ident, 0)  # that of its OS thread
    try:
        signal.pthread_kill(ended, 0)
    except ProcessLookupError:
        print("no such thread")
"""


@pytest.mark.parametrize(
    "package, module, patch, get",
    [
        ("gevent", "gevent.thread", "import gevent.monkey; gevent.monkey.patch_all()", "get"),
        ("eventlet", "eventlet.corolocal", "import eventlet; eventlet.monkey_patch()", "wait"),
    ],
)
def test_a_greenlets_ident_in_threading_is_its_address(package: str, module: str, patch: str, get: str) -> None:
    lines = prints(IDENTS.format(package=package, module=module, patch=patch, get=get))
    assert lines == ["True", "True True True", "True True True", "True True {}", "True True", "no such thread"]
