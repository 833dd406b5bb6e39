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
        print(gevent.__version__.endswith("+dhaga"), gevent.__spec__.name)
        try:
            import gevent.nothing
        except ModuleNotFoundError as error:
            print(error)
    """
    assert prints(code) == [
        "True False frozenset({'gevent'})",
        "True dhaga.compat.gevent",
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
        (["--as=gevent"], "a program is expected behind --as"),
        (["--as", "gevent", "--as", "eventlet", "nothing.py"], "nothing.py"),
    ],
)
def test_the_command_tells_what_it_takes(arguments: list[str], text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    assert text in capsys.readouterr().err
