"""Changes of a text by places: encodings, line ends, comments and layout stay."""

from __future__ import annotations

import ast

import pytest

from dhaga._cli.migrate.edits import Edit, ImportChange, Swap, Text, add_argument, remove
from tests.kit.migrations import text_of


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_a_node_is_found_behind_any_letters_and_line_ends(end: str) -> None:
    source = end.join(["é = 'ж😀'; x = f(1)", "\tif_ = 2", ""]).replace("\t", "")
    text = Text(source)
    call = next(node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call))
    assert (text.of(call), text.line_end) == ("f(1)", end)
    assert text.changed([Edit(*text.span(call), "g()")]) == source.replace("f(1)", "g()")


def test_a_form_feed_and_a_unicode_line_separator_end_no_line() -> None:
    source = "x = '\u2028'\n\fy = f()\n"
    call = next(node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call))
    assert Text(source).of(call) == "f()"


def test_changes_that_overlap_are_refused() -> None:
    with pytest.raises(ValueError):
        Text("abc\n").changed([Edit(0, 2, ""), Edit(1, 3, "")])
    assert Text("abc\n").changed([Edit(2, 2, "x"), Edit(0, 2, "y")]) == "yxc\n"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("f(1)", "f(1, z=1)"),
        ("f(1, )", "f(1, z=1, )"),
        ("f((1))", "f((1), z=1)"),
        ("f(1  # one\n)", "f(1, z=1  # one\n)"),
        ("f(\n    1,  # one\n    # two\n)", "f(\n    1,  # one\n    # two\n    z=1,\n)"),
        ("f(1,\n  2)", "f(1,\n  2, z=1)"),
        ("f(1,\n  2,)", "f(1,\n  2, z=1,)"),
        ("f(')')", "f(')', z=1)"),
    ],
)
def test_an_argument_is_added_as_the_others_stand(before: str, after: str) -> None:
    call = ast.parse(before).body[0].value  # type: ignore[attr-defined]
    text = Text(before)
    assert text.changed([add_argument(text, call, "z=1")]) == after
    assert ast.parse(after)


def changed_import(source: str, dropped: tuple[int, ...] = (), swapped: str = "", adds: bool = False) -> str:
    """Return a text whose first import loses names, by their number, or has one swapped."""
    text = text_of(source)
    statement = next(node for node in ast.walk(ast.parse(text.text)) if isinstance(node, ast.Import | ast.ImportFrom))
    change = ImportChange(statement)
    change.adds = adds
    change.dropped = {statement.names[number] for number in dropped}
    for alias in statement.names if swapped else ():
        if alias not in change.dropped:
            change.swapped[alias] = Swap(swapped, alias.name, alias.asname or alias.name)
    edit = change.edit(text)
    return text.changed([edit] if edit else [])


@pytest.mark.parametrize(
    ("before", "options", "after"),
    [
        ("from a import b\n", {"swapped": "dhaga"}, "from dhaga import b\n"),
        ("from a.b import (\n    c,  # see\n    d as e,\n)\n", {"swapped": "dhaga.x"},
         "from dhaga.x import (\n    c,  # see\n    d as e,\n)\n"),
        ("from a import b, c, d\n", {"dropped": (1,)}, "from a import b, d\n"),
        ("from a import b  # why\nx\n", {"dropped": (0,)}, "  # why\nx\n"),
        ("from a import b\nx\n", {"dropped": (0,)}, "x\n"),
        ("x; from a import b\n", {"dropped": (0,)}, "x; pass\n"),
        ("import a, b\n", {"dropped": (0,), "adds": True}, "import dhaga\nimport b\n"),
        ("import a; x\n", {"dropped": (0,), "adds": True}, "import dhaga; x\n"),
        ("import a, b; x\n", {"dropped": (0,), "adds": True}, "import dhaga; import b; x\n"),
        ("if 1:\r\n    import a, b\r\n", {"dropped": (0,), "adds": True},
         "if 1:\r\n    import dhaga\r\n    import b\r\n"),
        ("from a import b, c\n", {"dropped": (0,), "swapped": "dhaga", "adds": True},
         "import dhaga\nfrom dhaga import c\n"),
        ("import a\n", {"adds": True}, "import dhaga\nimport a\n"),
        ("import a\n", {}, "import a\n"),
    ],
)  # fmt: skip
def test_an_import_changes_in_its_place(before: str, options: dict[str, object], after: str) -> None:
    assert changed_import(before, **options) == after


def test_many_names_that_stay_are_put_on_lines_of_their_own() -> None:
    names = [f"name_{number}" for number in range(20)]
    after = changed_import(f"from a import {', '.join(names)}\n", dropped=(3,))
    assert after == "from a import (\n" + "".join(f"    {name},\n" for name in names if name != "name_3") + ")\n"


def test_a_text_without_tokens_is_a_syntax_error() -> None:
    with pytest.raises(SyntaxError):
        Text("x = '''")


def test_a_statement_is_removed_with_its_line() -> None:
    text = Text("a\n  b\nc")
    assert text.changed([remove(text, 4, 5)]) == "a\nc"
    assert text.changed([remove(text, 6, 7)]) == "a\n  b\n"
