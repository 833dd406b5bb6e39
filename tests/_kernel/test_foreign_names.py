"""Names that a Dhaga has in gevent, eventlet or asyncio: each error says what to write here."""

from __future__ import annotations

import inspect
import pydoc
import re

import pytest

import dhaga
from dhaga._kernel.foreign_names import OF_A_DHAGA
from dhaga.testing import virtual_clock


@pytest.mark.parametrize("name", OF_A_DHAGA)
def test_a_foreign_name_is_no_attribute_and_says_its_counterpart(name: str) -> None:
    with virtual_clock(), dhaga.Scope() as scope:
        for one in (dhaga.spawn(int), scope.spawn(int)):
            with pytest.raises(AttributeError, match=re.escape(f"'Dhaga' object has no attribute {name!r}: here")):
                getattr(one, name)
            assert not hasattr(one, name) and name not in dir(one)
            one.join()


def test_other_names_are_missing_as_ever_and_help_works() -> None:
    with virtual_clock():
        one = dhaga.spawn(int)
        one.join()
    with pytest.raises(AttributeError, match=r"'Dhaga' object has no attribute 'nonsense'$"):
        one.nonsense  # type: ignore[attr-defined]
    assert inspect.getmembers(one) and "cancel" in pydoc.render_doc(dhaga.Dhaga)


def test_the_class_has_no_getattr_that_each_attribute_would_pay_for() -> None:
    assert not any("__getattr__" in vars(base) or "__getattribute__" in vars(base) for base in dhaga.Dhaga.__mro__[:3])


def test_what_is_named_instead_exists() -> None:
    for text in OF_A_DHAGA.values():
        for path in re.findall(r"dhaga\.([\w.]+)", text):
            value: object = dhaga
            for part in path.split("."):
                value = getattr(value, part)
