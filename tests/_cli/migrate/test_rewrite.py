"""A whole file rewritten: imports, scopes, what is not touched at all, and the diff."""

from __future__ import annotations

import pytest

from dhaga._cli.migrate.follow import Elsewhere
from dhaga._cli.migrate.rewrite import rewrite_all
from tests.kit.migrations import module, rewriting, rewritten


@pytest.mark.parametrize(
    "text",
    [
        "try:\n    import gevent\nexcept ImportError:\n    gevent = None\n\ngevent.sleep(1)\n",
        "try:\n    import gevent\nexcept ImportError:\n    pass\nelse:\n    gevent.sleep(1)\n",
        "if x:\n    from gevent import sleep\nsleep(1)\n",
        "from gevent import *\nsleep(1)\n",
        "from gevent import sleep\nsleep(1)\nsleep = 2\n",
        "class A:\n    from gevent import sleep\n",
        "from gevent import (\n    sleep,  # this\n    spawn,\n)\nsleep(1)\n",
        "dhaga = 1\nimport gevent\ngevent.sleep(1)\n",
        "import gevent\ndef f(dhaga):\n    gevent.sleep(1)\n",
        "from dhaga import queue as dhaga\nimport gevent\ngevent.sleep(1)\n",
        "import gevent\n",
        "import threading\nthreading.Thread()\n",
        "gevent.sleep(1)\n",
    ],
)
def test_what_is_not_certain_is_not_touched(text: str) -> None:
    assert rewritten(text) == text


def test_an_import_that_another_file_takes_stays() -> None:
    text = "from gevent import sleep\nsleep(1)\n"
    after = "import dhaga\nfrom gevent import sleep\ndhaga.sleep(1)\n"
    assert rewritten(text, {"other.py": "from program import sleep\n"}) == after
    assert rewritten(text, {"other.py": "mock.patch('app.program.sleep')\n"}) == after
    assert rewritten("__all__ = ['sleep']\n" + text) == "__all__ = ['sleep']\n" + after
    package = rewritten(text, {"app/a.py": "from . import sleep\n"}, "app/__init__.py")
    assert package == after


def test_an_import_that_nothing_uses_is_told_from_one_that_is_needed() -> None:
    text = "from gevent.event import AsyncResult\nfrom gevent.pool import Pool\nfrom gevent.lock import *\nPool(2)\n"
    done = rewriting(text)
    needed = "other unchanged uses need it"
    assert [done.left[use.node] for use in done.module.uses if use.kind == "import"] == [
        "nothing in this file uses it",
        needed,
        needed,
    ]


def test_each_scope_gets_its_import_and_one_that_is_there_suffices() -> None:
    text = """\
from __future__ import annotations
import gevent.event
import gevent
def f():
    import gevent
    gevent.sleep(0)
    return gevent.getcurrent()
def g():
    gevent.sleep(1)
"""
    assert (
        rewritten(text)
        == """\
from __future__ import annotations
import dhaga
def f():
    import dhaga
    import gevent
    dhaga.sleep(0)
    return gevent.getcurrent()
def g():
    dhaga.sleep(1)
"""
    )
    text = "import dhaga\nimport gevent\ngevent.sleep(dhaga.x)\n"
    assert rewritten(text) == "import dhaga\ndhaga.sleep(dhaga.x)\n"


def test_line_ends_tabs_comments_and_odd_layout_stay() -> None:
    text = "import gevent\r\n\r\n\r\nif 1:\r\n\tx  =  gevent . sleep( 1 ) # é\r\n\t# end\r\n\r\n"
    after = "import dhaga\r\n\r\n\r\nif 1:\r\n\tx  =  dhaga.sleep( 1 ) # é\r\n\t# end\r\n\r\n"
    assert rewritten(text) == after


def test_the_diff_is_one_that_patch_takes() -> None:
    assert "".join(rewriting("import gevent\r\ngevent.sleep(1)\r\nx", file="/app/a.py").diff()) == (
        "--- a/app/a.py\n+++ b/app/a.py\n@@ -1,3 +1,3 @@\n-import gevent\r\n-gevent.sleep(1)\r\n+import dhaga\r\n"
        "+dhaga.sleep(1)\r\n x\n\\ No newline at end of file\n"
    )
    assert "".join(rewriting("x = 1\n").diff()) == ""


def test_what_another_file_replaces_is_left() -> None:
    code = module("import gevent\ngevent.sleep(1)\ngevent.spawn(f)\n", "a.py")
    for text in (
        "patch('gevent.sleep')\n",
        "import gevent as g\npatch.object(g, 'sleep')\n",
        "import gevent\ndel gevent.sleep\n",
    ):
        done = rewrite_all([code, module(text, "b.py")], Elsewhere([]))
        assert done[0].text == "import dhaga\nimport gevent\ngevent.sleep(1)\ndhaga.spawn(f, daemon=True)\n"
        assert done[1].text == text


def test_the_patch_of_eventlet_goes_last() -> None:
    patch = module("import eventlet\neventlet.monkey_patch()\n", "a.py")
    easy, hard = module("import eventlet\neventlet.sleep()\n", "b.py"), module("import eventlet.wsgi\n", "c.py")
    nowhere = Elsewhere([])
    texts = [done.text for done in rewrite_all([patch, easy], nowhere)]
    assert texts == ["import dhaga\ndhaga.monkey.patch()\n", "import dhaga\ndhaga.sleep()\n"]
    texts = [done.text for done in rewrite_all([patch, easy, hard], nowhere)]
    assert texts == [patch.source.text, "import dhaga\ndhaga.sleep()\n", hard.source.text]


def test_a_text_that_its_encoding_cannot_hold_or_that_is_no_python_any_more_is_left() -> None:
    text = "import gevent\nf'{gevent.sleep(1)!r:>{3}}'\n"
    assert rewritten(text) in (text, text.replace("gevent", "dhaga"))
