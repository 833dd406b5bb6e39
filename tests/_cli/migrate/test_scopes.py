"""Which name means what: shadowed names, conditional imports, parameters, comprehensions, class bodies."""

from __future__ import annotations

from textwrap import dedent

import pytest

from tests.kit.migrations import module, uses


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("def f(gevent):\n    gevent.sleep(1)\n", []),
        ("def f(gevent=gevent.sleep):\n    gevent(1)\n", [1]),
        ("def f(x: gevent.Greenlet, gevent=1) -> gevent.Greenlet:\n    gevent.a\n", [1, 1]),
        ("def f():\n    gevent = 1\n    gevent.sleep(1)\ngevent.sleep(1)\n", [4]),
        ("def f():\n    global gevent\n    gevent.sleep(1)\n", [3]),
        ("class A:\n    gevent = 1\n    def f(self):\n        gevent.sleep(1)\n", [4]),
        ("class A(gevent.Greenlet):\n    gevent = 1\n    x = gevent.y\n", [1]),
        ("[gevent.sleep(1) for gevent in x]\ngevent.sleep(1)\n", [2]),
        ("lambda gevent: gevent.sleep(1)\nlambda: gevent.sleep(1)\n", [2]),
        ("@gevent.spawn\ndef gevent2(): pass\n", [1]),
        ("def f():\n    for gevent in x:\n        gevent.sleep(1)\n", []),
        ("def f():\n    with x as gevent:\n        gevent.sleep(1)\n", []),
        ("def f():\n    try:\n        pass\n    except E as gevent:\n        gevent.sleep(1)\n", []),
        ("def f(x):\n    match x:\n        case {'a': 1, **gevent}:\n            gevent.sleep(1)\n", []),
        ("def f(x):\n    if (gevent := x):\n        gevent.sleep(1)\n", []),
        ("def f():\n    [0 for x in y if (gevent := x)]\n    gevent.sleep(1)\n", []),
        ("def f():\n    x = 1\n    def g():\n        nonlocal x\n        x = gevent.sleep\n", [5]),
        ("f'{gevent.sleep(1)}'\n", [1]),
        ("x: 'gevent.Greenlet'\n", []),
        ("other.gevent.sleep(1)\n", []),
    ],
)
def test_a_use_is_one_of_the_name_that_is_imported(text: str, lines: list[int]) -> None:
    found = [line - 1 for line, path in uses("import gevent\n" + text) if line > 1]
    assert found == lines


def test_names_that_are_bound_in_one_scope_are_known_by_it() -> None:
    scopes = module("import gevent\ndef f(a):\n    import eventlet\n    return eventlet, a\n").scopes
    assert set(scopes.module.bindings) == {"gevent", "f"}
    (function,) = [scope for scope in scopes.all if scope is not scopes.module]
    assert {name: [each.path for each in found] for name, found in function.bindings.items()} == {
        "a": [None],
        "eventlet": ["eventlet"],
    }
    (load,) = scopes.loads_of(function, "eventlet")
    assert load.name.lineno == 4


@pytest.mark.parametrize(
    ("text", "guarded"),
    [
        ("import gevent\n", False),
        ("def f():\n    import gevent\n", False),
        ("if x:\n    import gevent\n", True),
        ("try:\n    import gevent\nexcept ImportError:\n    pass\n", True),
        ("with x:\n    import gevent\n", True),
    ],
)
def test_an_import_that_may_not_run_is_guarded(text: str, guarded: bool) -> None:
    scopes = module(text).scopes
    (binding,) = [each for scope in scopes.all for each in scope.bindings.get("gevent", ())]
    assert binding.guarded is guarded


def test_a_text_that_is_nested_deeply_needs_no_deep_stack() -> None:
    text = "import gevent\nx = " + " + ".join(["gevent.sleep"] * 900) + "\n"
    assert len(uses(text)) == 901


def test_parameters_of_types_are_names_of_their_own() -> None:
    text = dedent("""
        import gevent
        def f[gevent](x: gevent) -> None:
            gevent.sleep(1)
    """)
    try:
        found = uses(text)
    except SyntaxError:
        pytest.skip("Python 3.11 has none")
    assert (4, "gevent.sleep") not in found
