"""The values in a failed statement."""

from __future__ import annotations

from typing import Any

from dhaga.simulation._world.values import values_of


class Account:
    def __init__(self) -> None:
        self.balance = 150

    @property
    def owner(self) -> str:
        raise AssertionError("no code of the program runs for a report")

    def total(self) -> int:
        return self.balance


class Broken:
    def __repr__(self) -> str:
        raise ValueError


def values_after(program: Any) -> list[str]:
    try:
        program()
    except AssertionError as error:
        return values_of(error)
    raise AssertionError("it did not fail")


def test_a_failed_statement_shows_its_variables_and_stored_attributes() -> None:
    account, expected = Account(), 100

    def fails() -> None:
        assert account.total() == account.balance == expected

    assert sorted(values_after(fails))[1:] == ["account.balance = 150", "expected = 100"]


def test_properties_functions_modules_and_classes_are_not_read() -> None:
    account = Account()

    def fails() -> None:
        assert isinstance(account.balance, str) and account.owner and len("")

    assert [value for value in values_after(fails) if not value.startswith("account = ")] == ["account.balance = 150"]


def test_long_values_are_cut_and_broken_ones_named() -> None:
    text, broken = "x" * 1000, Broken()

    def fails() -> None:
        assert text == broken

    first, second = values_after(fails)
    assert len(first) < 80 and first.startswith("text = 'xxx") and second.startswith("broken = <Broken instance at ")


class Proxy:
    """Runs code at each access to an attribute, as a proxy of a request does."""

    def __getattribute__(self, name: str) -> Any:
        raise RuntimeError(f"outside a request: {name}")


def test_no_code_of_a_proxy_is_run() -> None:
    proxy: Any = Proxy()

    def fails() -> None:
        raise AssertionError(not proxy and proxy.user)  # an assert statement of pytest reads attributes

    [value] = values_after(fails)
    assert value.startswith("proxy = <tests.simulation.test_value")


def test_a_line_that_is_no_whole_statement_and_code_without_source_show_none() -> None:
    def fails() -> None:
        # fmt: off
        assert (  # the failed line is the next one
            values_after is None
        )
        # fmt: on

    assert values_after(fails) in ([], ["values_after = 1"])
    assert values_after(lambda: exec("assert 1 == 2")) == []
    assert values_of(AssertionError()) == []
