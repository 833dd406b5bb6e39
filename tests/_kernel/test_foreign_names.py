"""Names that a Dhaga, Scope or Timeout has in gevent, eventlet or asyncio: each error says what to write here."""

from __future__ import annotations

import asyncio
import importlib
import inspect
import pydoc
import re
import rlcompleter
import signal as standard
import sys
from typing import Any

import pytest

import dhaga
from dhaga import signal
from dhaga._kernel.faces.foreign_names import OF_A_DHAGA, OF_A_SCOPE, OF_A_TIMEOUT
from dhaga.compat import eventlet, gevent
from dhaga.testing import virtual_clock


@pytest.mark.parametrize("name", OF_A_DHAGA)
def test_a_foreign_name_is_no_attribute_and_says_its_counterpart(name: str) -> None:
    with virtual_clock(), dhaga.Scope() as scope:
        for one in (dhaga.spawn(int), scope.spawn(int)):
            with pytest.raises(AttributeError, match=re.escape(f"'Dhaga' object has no attribute {name!r}: here")):
                getattr(one, name)
            assert not hasattr(one, name) and name not in dir(one)
            one.join()


@pytest.mark.parametrize(
    ("kind", "name"), [*(("Scope", name) for name in OF_A_SCOPE), *(("Timeout", name) for name in OF_A_TIMEOUT)]
)
def test_a_foreign_name_of_a_block_is_no_attribute_and_says_its_counterpart(kind: str, name: str) -> None:
    one = getattr(dhaga, kind)(1)
    with pytest.raises(AttributeError, match=re.escape(f"'{kind}' object has no attribute {name!r}: here it is ")):
        getattr(one, name)
    assert not hasattr(one, name)
    with pytest.raises(AttributeError, match=rf"'{kind}' object has no attribute 'nonsense'$"):
        one.nonsense


@pytest.mark.parametrize("block", [dhaga.Scope, dhaga.Timeout, dhaga.fail_after, dhaga.move_on_after])
def test_async_with_a_block_says_what_to_write(block: Any) -> None:
    with pytest.raises(TypeError, match=r"in a coroutine write async with asyncio\.\w+\(.*run_in_dhaga"):
        asyncio.run(entered(block(1)))


async def entered(thing: Any) -> None:
    async with thing:
        pass


def test_async_with_what_a_generator_function_makes_names_that_function() -> None:
    with pytest.raises(TypeError, match=r"^async with on priority: .*\n.*run_in_dhaga"):
        asyncio.run(entered(dhaga.priority(dhaga.HIGH)))


def context_managers() -> dict[str, type]:
    """Return the public classes to which Dhaga itself gives `__enter__`, by module and name."""
    found = {}
    for module in ("dhaga", "dhaga.http.wsgi", *(f"dhaga.{name}" for name in sorted(dhaga.SUBMODULES))):
        faces = importlib.import_module(module)
        for name in getattr(faces, "__all__", dir(faces)):
            thing = getattr(faces, name)
            enters = [each for each in getattr(thing, "__mro__", ()) if "__enter__" in vars(each)]
            if name[0] != "_" and enters and enters[0].__module__.startswith("dhaga"):
                found[f"{module}.{name}"] = thing
    return found


@pytest.mark.parametrize("name", context_managers())
def test_each_context_manager_supports_async_with_or_refuses_it_with_a_cure(name: str) -> None:
    kind = context_managers()[name]
    instance = object.__new__(kind) if kind.__new__ is object.__new__ else kind.__new__(kind)
    if hasattr(kind, "__aenter__"):
        assert inspect.iscoroutinefunction(kind.__aenter__)
        return
    with pytest.raises(TypeError, match=rf"^async with on {kind.__name__}: .*\n.*run_in_dhaga"):
        asyncio.run(entered(instance))
    assert not hasattr(kind, "__aenter__") and not hasattr(instance, "__aexit__")


def test_the_search_for_context_managers_finds_those_of_each_kind() -> None:
    named = {"dhaga.Scope", "dhaga.shield", "dhaga.threading.Lock", "dhaga.pool.Pool", "dhaga.http.HTTPClient"}
    assert named | {"dhaga.servers.TCPServer", "dhaga.RateLimiter", "dhaga.subprocess.Popen"} <= set(context_managers())


def test_a_subclass_may_support_async_with() -> None:
    class Both(dhaga.CapacityLimiter):
        async def __aenter__(self) -> None: ...

        async def __aexit__(self, *error: object) -> None: ...

    asyncio.run(entered(Both(1)))


def test_other_names_are_missing_as_ever_and_help_works() -> None:
    with virtual_clock():
        one = dhaga.spawn(int)
        one.join()
    with pytest.raises(AttributeError, match=r"'Dhaga' object has no attribute 'nonsense'$"):
        one.nonsense  # type: ignore[attr-defined]
    assert inspect.getmembers(one) and "cancel" in pydoc.render_doc(dhaga.Dhaga)


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="CPython 3.12 specialises the attributes of classes with one")
def test_the_class_has_no_getattr_that_each_attribute_would_pay_for() -> None:
    assert not any("__getattr__" in vars(base) or "__getattribute__" in vars(base) for base in dhaga.Dhaga.__mro__[:3])


@pytest.mark.skipif(sys.version_info < (3, 12), reason="the names are in the class on CPython 3.11")
def test_completion_offers_only_attributes_that_are_there() -> None:
    with virtual_clock():
        one = dhaga.spawn(int)
        one.join()
    for some, there in (one, "result"), (dhaga.Scope(), "spawn"), (dhaga.Timeout(1), "seconds"):
        offered = [name.removeprefix("some.") for name in completions("some.", some=some)]
        assert there in offered
        assert [name for name in offered if not hasattr(some, name)] == []


def test_completion_offers_the_public_modules() -> None:
    missing = dhaga.SUBMODULES - {name.removeprefix("dhaga.") for name in completions("dhaga.", dhaga=dhaga)}
    assert not missing


def completions(text: str, **names: object) -> list[str]:
    completer: Any = rlcompleter.Completer(names)
    completer.complete(text, 0)
    return [match.rstrip("()") for match in completer.matches]


def test_what_is_named_instead_exists() -> None:
    for text in (*OF_A_DHAGA.values(), *OF_A_SCOPE.values(), *OF_A_TIMEOUT.values()):
        for path in re.findall(r"dhaga\.([\w.]+)", text):
            value: object = dhaga
            for part in path.split("."):
                value = getattr(value, part)


# ---- attributes that programs of gevent and eventlet set

spawns = pytest.mark.parametrize("spawn", [gevent.spawn, eventlet.spawn])


@spawns
@pytest.mark.parametrize("name", ["priority", "reason", "state"])
def test_a_program_may_set_a_name_of_dhagas(spawn: Any, name: str) -> None:
    greenlet = spawn(dhaga.sleep, 0)
    of_dhaga = getattr(greenlet, name)
    assert of_dhaga == getattr(dhaga.Dhaga, name).fget(greenlet)
    setattr(greenlet, name, "mine")
    assert getattr(greenlet, name) == "mine"
    assert getattr(dhaga.Dhaga, name).fget(greenlet) == of_dhaga
    delattr(greenlet, name)
    assert getattr(greenlet, name) == of_dhaga
    greenlet.join()


@spawns
def test_a_greenlet_sets_signal_handlers_as_it_is_no_thread(spawn: Any) -> None:
    def swap() -> Any:
        former = signal.signal(standard.SIGUSR2, standard.SIG_IGN)
        return former, signal.signal(standard.SIGUSR2, former)

    assert spawn(swap).result() == (standard.SIG_DFL, standard.SIG_IGN)
    with pytest.raises(ValueError, match="main thread"):
        dhaga.spawn(swap).result()
