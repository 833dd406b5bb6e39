"""``dhaga._cli.errors_index``: how entries are read, and which of them a message finds."""

from __future__ import annotations

import pytest

from dhaga._cli import errors_index
from dhaga._cli.errors_index import ENTRY, exactness, of_heading, of_message, texts_of, with_words

PAGE = """\
`one … of`
`` a `code` ``
: *Cause.* First,
second.

  *Cure.* Third,
  fourth.

`next`
: *Cause.* A.

  *Cure.* B.
"""


def test_an_entry_has_several_messages_a_cause_and_a_cure() -> None:
    found = [(texts_of(each["texts"]), each["cause"], each["cure"]) for each in ENTRY.finditer(PAGE)]
    assert found == [(("one … of", "a `code`"), "First,\nsecond.", "Third,\n  fourth."), (("next",), "A.", "B.")]


@pytest.mark.parametrize("name", ["Deadlock", "dhaga.Deadlock", "deadlock"])
def test_an_exception_is_found_by_its_name(name: str) -> None:
    assert [entry.heading for entry in of_heading(name)] == ["Deadlock"]


def test_each_message_finds_its_own_entry() -> None:
    for entry in errors_index.entries():
        for text in filter(exactness, entry.texts):
            found = of_message(f"Error: {text.replace('…', 'a value')}\nmore")
            assert entry.texts in [each.texts for each in found], text


def test_the_most_exact_text_wins() -> None:
    (found,) = of_message("can't open file '/x', and there is no command 'x': did you mean y?")
    assert found.heading == "SystemExit" and found.texts[0].startswith("can't")


def test_a_text_of_values_only_is_no_match() -> None:
    assert exactness("…: …") == exactness("a … b") == 0
    assert of_message("KeyError: 3") == []


def test_words_are_found_in_any_order() -> None:
    assert {"release unlocked lock"} <= {text for entry in with_words(["LOCK", "unlocked"]) for text in entry.texts}
