"""Which variables and attributes can be followed: not those that another file may use."""

from __future__ import annotations

import ast

import pytest

from dhaga._cli.migrate.follow import Elsewhere, Variable
from tests.kit.migrations import follower


def variable(text: str, **others: str) -> Variable:
    """Return the variable in which the first line of the text puts something."""
    here = follower(text, {f"{name}.py": content for name, content in others.items()})
    (target,) = [
        each for each in ast.walk(here.scopes.tree)
        if isinstance(each, ast.Name | ast.Attribute) and each.lineno == 1 and isinstance(each.ctx, ast.Store)
    ]  # fmt: skip
    return here.variable(target)


def test_all_uses_and_values_of_a_name_are_found() -> None:
    found = variable("x = f()\nx.a\ndef g(y):\n    return x\ndef h(x):\n    return x\n")
    assert (found.lost, len(found.values), [use.lineno for use in found.uses]) == ("", 1, [2, 4])


def test_all_uses_of_an_attribute_are_found_whatever_it_is_of() -> None:
    found = variable("self.x = f()\nother.x.join()\nself.x = None\nself.x.y\n")
    assert (found.lost, len(found.values), sorted(use.lineno for use in found.uses)) == ("", 1, [2, 4])


@pytest.mark.parametrize(
    ("text", "others", "lost"),
    [
        ("x = 1\ndel x\n", {}, "x is also bound otherwise, at line 2"),
        ("x = 1\nx += 2\n", {}, "x is also bound otherwise, at line 2"),
        ("x = 1\ndef f():\n    global x\n    x = 2\n", {}, "x is also bound otherwise, at line 4"),
        ("x = 1\n__all__ = ['x']\n", {}, "x is imported by another file"),
        ("x = 1\n", {"other": "from program import (y,\n    x)\n"}, "x is imported by another file"),
        ("x = 1\n", {"other": "import program\nprogram.x.join()\n"}, "x is imported by another file"),
        ("x = 1\n", {"other": "from .program import *\n"}, "x is imported by another file"),
        ("x = 1\n", {"other": "patch('app.program.x')\n"}, "x is imported by another file"),
        ("self.x = 1\n", {"other": "thing.x.kill()\n"}, "another file uses an attribute x"),
        ("self.x = 1\n", {"other": "from program import A\nclass B(A):\n    def f(self): self.x.kill()\n"},
         "another file uses an attribute x"),
        ("self.x = 1\n", {"other": "from program import A\nclass B(A): pass\n",
                          "third": "from other import B\nclass C(B):\n    def f(self): self.x.kill()\n"},
         "another file uses an attribute x"),
        ("self.x = 1\ndel self.x\n", {}, "x is also set otherwise, at line 2"),
        ("self.x = 1\n", {"other": "class B:\n    def f(self): self.x.kill()\n"}, ""),
        ("x = 1\n", {"other": "from elsewhere import x\nprogram = 1\n"}, ""),
    ],
)  # fmt: skip
def test_what_another_may_use_is_not_followed(text: str, others: dict[str, str], lost: str) -> None:
    assert variable(text, **others).lost == lost


def test_a_package_is_known_by_its_folder_and_to_its_own_modules() -> None:
    files = {
        "app/__init__.py": b"spawn = 1\n",
        "app/a.py": b"from . import spawn\n",
        "b.py": b"from app import sleep\n",
    }
    elsewhere = Elsewhere(files.items())
    assert [elsewhere.takes(name, "app/__init__.py") for name in ("spawn", "sleep", "joinall")] == [True, True, False]
    assert not elsewhere.takes("spawn", "b.py")
