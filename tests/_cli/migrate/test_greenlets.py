"""Which spawned greenlets become dhagas, and with what uses of them."""

from __future__ import annotations

import pytest

from tests.kit.migrations import reasons, rewritten

HEAD = "import gevent\n"


@pytest.mark.parametrize(
    ("text", "after"),
    [
        ("def f():\n    g = gevent.spawn(h)\n    def i():\n        return g.get()\n    return i\n",
         "def f():\n    g = dhaga.spawn(h, daemon=True)\n    def i():\n        return g.result()\n    return i\n"),
        ("g = gevent.spawn(h)\nif g is not None:\n    g.join(5)\n",
         "g = dhaga.spawn(h, daemon=True)\nif g is not None:\n    g.join(5)\n"),
        ("for x in y:\n    g = gevent.spawn(h, x)\n", "for x in y:\n    g = dhaga.spawn(h, x, daemon=True)\n"),
        ("def f():\n    g = gevent.spawn(h)\n    g.get()\n    g = gevent.spawn(i)\n    g.get()\n",
         "def f():\n    g = dhaga.spawn(h, daemon=True)\n    g.result()\n    g = dhaga.spawn(i, daemon=True)\n"
         "    g.result()\n"),
        ("class A:\n    g = None\n    def f(self):\n        self.g = gevent.spawn(h)\n        self.g.join()\n",
         "class A:\n    g = None\n    def f(self):\n        self.g = dhaga.spawn(h, daemon=True)\n"
         "        self.g.join()\n"),
        ("l = [gevent.spawn(h)]\nl.append(gevent.spawn(i))\nx = sum(j.get() for j in l)\n",
         "l = [dhaga.spawn(h, daemon=True)]\nl.append(dhaga.spawn(i, daemon=True))\nx = sum(j.result() for j in l)\n"),
        ("a = gevent.spawn(h)\nb = gevent.spawn(i)\ngevent.joinall((a, b))\nprint(a.get(), b.get())\n",
         "a = dhaga.spawn(h, daemon=True)\nb = dhaga.spawn(i, daemon=True)\ndhaga.wait((a, b))\n"
         "print(a.result(), b.result())\n"),
        ("gevent.joinall(gevent.spawn(h, x) for x in y)\n", "dhaga.wait(dhaga.spawn(h, x, daemon=True) for x in y)\n"),
    ],
)  # fmt: skip
def test_a_greenlet_is_changed_with_all_of_its_uses(text: str, after: str) -> None:
    assert rewritten(HEAD + text) == "import dhaga\n" + after


@pytest.mark.parametrize(
    ("text", "others", "why"),
    [
        ("jobs = [gevent.spawn(f)]\n", {"a.py": "from program import jobs\n"}, "jobs is imported by another file"),
        ("x.g = gevent.spawn(f)\n", {"a.py": "y.g.kill()\n"}, "another file uses an attribute g"),
        (
            "l = []\nl.append(gevent.spawn(f))\ngevent.joinall(l)\nl[0].get()\n",
            {},
            "it may wait for other objects than dhagas",
        ),
        ("l = []\nl.append(f())\ngevent.joinall(l)\n", {}, "it may wait for other objects than dhagas"),
        ("a = b\nb = a\ngevent.joinall([a])\n", {}, "it may wait for other objects than dhagas"),
        (
            "for j in [j]:\n    j.append(gevent.spawn(f))\ngevent.joinall([j])\n",
            {},
            "it may wait for other objects than dhagas",
        ),
        ("l = [gevent.spawn(f)]\nl.sort()\n", {}, "its list is used where it cannot be followed, at line 3"),
        ("l = [gevent.spawn(f)]\nl.append(x)\n", {}, "its list is used where it cannot be followed, at line 3"),
        (
            "l = [gevent.spawn(f)]\nfor a, b in l:\n    pass\n",
            {},
            "its list is used where it cannot be followed, at line 3",
        ),
        ("l = [gevent.spawn(f)]\nfor g in l:\n    g.kill()\n", {}, "its kill is used, at line 4"),
        ("for g in x:\n    g.kill()\n    l.append(gevent.spawn(f))\n", {}, "l is not a variable of a function"),
        ("with x as g:\n    g = gevent.spawn(f)\n", {}, "g is also bound otherwise, at line 2"),
        ("g = gevent.spawn(f)\ng.run = 1\n", {}, "its run is used, at line 3"),
        ("if gevent.spawn(f):\n    pass\n", {}, "it is used where it cannot be followed, at line 2"),
        ("async def f():\n    await gevent.spawn(f)\n", {}, "it is used where it cannot be followed, at line 3"),
    ],
)
def test_a_greenlet_that_is_not_followed_is_left(text: str, others: dict[str, str], why: str) -> None:
    found = reasons(HEAD + text, others)
    assert any(each.startswith(why) for each in found), found
    assert rewritten(HEAD + text, others) == HEAD + text


def test_what_depends_on_what_is_left_is_left() -> None:
    text = """\
        import gevent
        a = gevent.spawn(f)
        b = gevent.spawn(g)
        c = gevent.spawn(h)
        gevent.joinall([a, b])
        b.kill()
        c.join()
    """
    after = rewritten(text)
    assert "a = gevent.spawn(f)" in after and "gevent.joinall([a, b])" in after
    assert "c = dhaga.spawn(h, daemon=True)" in after
