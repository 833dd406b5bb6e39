"""Blocks of our context managers: they let through the error that was raised, unchanged."""

from __future__ import annotations

import ast
import dataclasses
import traceback
from collections.abc import Iterator
from typing import Any

import pytest

import dhaga
from dhaga._kernel.context_manager import contextmanager
from dhaga.testing import virtual_clock
from tests.kit.sources import sources_with

SETS_ATTRIBUTES = {"contextmanager", "asynccontextmanager", "ExitStack", "AsyncExitStack"}
"""Names of ``contextlib`` that set attributes of the errors that pass; ``suppress`` and ``closing`` do not."""

OF_ERRORS = {"__traceback__", "__cause__", "__context__", "__suppress_context__"}


@dataclasses.dataclass(frozen=True)
class Refused(Exception):
    """An error whose attributes cannot be set."""

    code: int = 7


def refuse() -> None:
    raise Refused


def refusing_uses(source: str) -> Iterator[str]:
    """Yield the names used in a source that fail for an error whose attributes cannot be set."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and node.module == "contextlib":
            yield from (alias.name for alias in node.names if alias.name in SETS_ATTRIBUTES)
        if isinstance(node, ast.Attribute) and node.attr in SETS_ATTRIBUTES and ast.unparse(node.value) == "contextlib":
            yield node.attr
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and node.attr in OF_ERRORS:
            yield node.attr


def test_no_module_sets_attributes_of_errors_that_it_lets_through() -> None:
    suspects = sources_with(*SETS_ATTRIBUTES, *OF_ERRORS)
    assert [f"{path}: {use}" for path, source in suspects for use in refusing_uses(source)] == []


def test_the_check_finds_each_of_them() -> None:
    lines = [
        "from contextlib import contextmanager, suppress",
        "@contextlib.contextmanager\ndef f(): ...",
        "with contextlib.ExitStack() as stack: ...",
        "error.__traceback__ = error.__traceback__.tb_next",
    ]
    assert [list(refusing_uses(line)) for line in lines] == [
        ["contextmanager"],
        ["contextmanager"],
        ["ExitStack"],
        ["__traceback__"],
    ]


@contextmanager
def block(handles: bool = False, replaces: bool = False) -> Iterator[str]:
    try:
        yield "value"
    except Refused:
        if replaces:
            raise KeyError from None
        if not handles:
            raise


def test_an_error_whose_attributes_cannot_be_set_comes_out_of_a_block_without_frames_of_ours() -> None:
    with pytest.raises(Refused) as caught, block() as value:
        assert value == "value"
        refuse()
    names = [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)]
    assert names[-1] == "refuse" and "block" not in names


def test_a_block_may_handle_its_error_or_raise_another() -> None:
    with block(handles=True):
        refuse()
    with pytest.raises(KeyError), block(replaces=True):
        refuse()


def test_a_stop_iteration_comes_out_of_a_block_as_it_is() -> None:
    stop = StopIteration(1)
    with pytest.raises(StopIteration) as caught, block():
        raise stop
    assert caught.value is stop


def test_a_generator_must_yield_once() -> None:
    @contextmanager
    def twice() -> Iterator[None]:
        try:
            yield
        except Refused:
            pass
        yield

    with pytest.raises(RuntimeError, match="didn't stop"), twice():
        pass
    with pytest.raises(RuntimeError, match=r"didn't stop after throw\(\)"), twice():
        refuse()


def test_it_decorates_functions_each_call_of_which_is_a_block() -> None:
    calls: list[Any] = []

    @contextmanager
    def counted() -> Iterator[None]:
        calls.append("enter")
        yield
        calls.append("exit")

    @counted()
    def called() -> None:
        calls.append("call")

    called()
    called()
    assert calls == ["enter", "call", "exit"] * 2


def test_a_dhaga_and_blocks_of_its_own_hand_on_an_error_whose_attributes_cannot_be_set() -> None:
    def prioritised() -> None:
        with dhaga.priority(dhaga.LOW):
            refuse()

    with virtual_clock():
        for function in (refuse, prioritised):
            with pytest.raises(Refused):
                dhaga.spawn(function).result()
