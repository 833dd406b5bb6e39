"""Names of a library that one module of a tree imports from another one."""

from __future__ import annotations

import pytest

from dhaga._cli.migrate.exports import Exports, imported, module_file
from dhaga._cli.migrate.files import Source
from dhaga._cli.migrate.uses import Module
from tests.kit.migrations import module


def exporting(**files: str) -> Exports:
    exports = Exports()
    for name, text in files.items():
        exports.add(module(text, name.replace("__", "/") + ".py"))
    return exports


def notes(text: str, exports: Exports, file: str = "app/main.py") -> list[tuple[str, str]]:
    return [(use.path, use.note) for use in Module(Source(file, text, "utf-8"), exports).uses]


def test_a_name_that_a_module_passes_on_is_found_by_every_form_of_import() -> None:
    exports = exporting(app__compat="from gevent import spawn as start\nimport gevent\n")
    assert notes("from .compat import start\nstart(f)\n", exports) == [
        ("gevent.spawn", "through .compat"),
        ("gevent.spawn", ""),
    ]
    assert notes("from app.compat import gevent as g\ng.sleep(1)\n", exports)[1] == ("gevent.sleep", "")
    assert notes("from ..compat import start\n", exports, "app/deep/main.py") == [("gevent.spawn", "through ..compat")]


@pytest.mark.parametrize(
    "text",
    [
        "from .compat import other\n",
        "from ..compat import start\n",
        "from elsewhere.compat import start\n",
        "from queue import Queue\nQueue()\n",
    ],
)
def test_another_module_or_name_is_not_taken_for_it(text: str) -> None:
    exports = exporting(
        app__compat="from gevent import spawn as start\n", app__queue="from gevent.queue import Queue\n"
    )
    assert notes(text, exports) == []


def test_a_name_is_passed_on_by_several_and_told_when_it_is_new() -> None:
    exports = exporting(app__compat="from gevent import spawn\n")
    second = Module(Source("app/__init__.py", "from .compat import spawn\n", "utf-8"), exports)
    assert exports.add(second)
    assert not exports.add(second)
    assert exports.wanted([second]) == {b"app": {b"spawn"}, b"": {b"spawn"}}
    assert notes("from app import spawn\n", exports, "tests/t.py") == [("gevent.spawn", "through app")]


def test_threading_is_not_passed_on() -> None:
    assert exporting(app__compat="import threading\n").names == {}


def test_imports_are_read_from_the_text() -> None:
    text = (
        b"from a.b import (c,\n  d as e)\n  from . import f # g\nfrom h import *\nfrom i import j, \\\n  k\nimport l\n"
    )
    assert imported(text) == [
        (b"b", {b"c", b"d", b"as", b"e"}),
        (b"", {b"f"}),
        (b"h", {b"*"}),
        (b"i", {b"j", b"k"}),
    ]
    assert [module_file(name) for name in ("a/b.py", "a/__init__.py", "c.pyw")] == ["a/b", "a", "c"]
