"""``tests/kit/marks.py``: the code of a test shows whether the test starts a process."""

from __future__ import annotations

import argparse
import dis
import typing
from types import FunctionType

from tests.kit import marks


def test_the_globals_of_code_are_those_that_dis_tells() -> None:
    functions = [each for module in (argparse, dis, typing, marks) for each in vars(module).values()]
    codes = [code for each in functions if isinstance(each, FunctionType) for code in marks._codes_in(each.__code__)]
    assert len(codes) > 50
    for code in codes:
        told = {each.argval for each in dis.get_instructions(code) if each.opname == "LOAD_GLOBAL"}
        assert marks._globals_of(code) == told
