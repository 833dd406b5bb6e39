"""No turn ends in Python code that C calls with a lock of the OS thread held."""

from __future__ import annotations

import functools
import sys

import pytest

import dhaga
from dhaga._kernel.run import native_callers
from tests.kit.scripts import prints


def test_the_libraries_on_the_c_stack_are_those_of_the_callers_greenlet() -> None:
    if native_callers.unwinder() is None:
        pytest.skip("this platform does not tell what is on the C stack")

    def look() -> bool:
        return any("_functools" in each or "python" in each for each in native_callers.libraries_on_stack())

    assert look()
    assert dhaga.spawn(look).result()
    assert dhaga.spawn(lambda: functools.reduce(lambda *_: look(), [1, 2])).result()


def test_nothing_is_asked_where_no_such_library_was_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native_callers, "LOCKING", {"no such module": "lxml"})
    monkeypatch.setattr(native_callers, "libraries_on_stack", lambda: pytest.fail("it walks the stack"))
    assert not native_callers.hold_lock()


PROGRAM = """
import dhaga.monkey
dhaga.monkey.patch()
import threading
from lxml import etree

URI = "urn:x"
def compute(*_):
    for _ in range(100_000):
        pass
    return "1"

class File:
    def __init__(self):
        self.chunks = iter([b"<a>", b"<b/>", b"</a>", b""])
    def read(self, size=-1):
        compute()
        return next(self.chunks)

class Target:
    start = compute
    def end(self, tag): pass
    def data(self, text): pass
    def close(self): return "closed"

find = etree.XPath("x:f(.)", namespaces={"x": URI}, extensions={(URI, "f"): compute})
transform = etree.XSLT(etree.XML(
    '<xsl:stylesheet version="1.0" xmlns:xsl="http://www.w3.org/1999/XSL/Transform" xmlns:x="urn:x">'
    '<xsl:template match="/"><a><xsl:value-of select="x:f(.)"/></a></xsl:template></xsl:stylesheet>'
), extensions={(URI, "f"): compute})
into_target = etree.XMLParser(target=Target())

def work():
    for _ in range(3):
        etree.parse(File())
        find(etree.XML("<a/>"))
        transform(etree.XML("<a/>"))
        etree.XML("<a><b/></a>", into_target)
        seen.append(1)

seen = []
workers = [threading.Thread(target=work) for _ in range(3)]
for each in workers:
    each.start()
for each in workers:
    each.join()
print(len(seen))
"""


@pytest.mark.process
@pytest.mark.skipif(sys.version_info < (3, 12), reason="sys.monitoring came with Python 3.12")
def test_callbacks_of_lxml_keep_their_turn() -> None:
    pytest.importorskip("lxml.etree")
    assert prints(PROGRAM) == ["9"]
