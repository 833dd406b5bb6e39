"""Reading a terminal parks until the first key or line."""

from __future__ import annotations

import pytest

from tests.kit.terminal_programs import typed_into

READERS = {
    "input": "print([input('> ')])",
    "input edited by readline": "import readline; print([input('two\\nlines> ')])",
    "getpass": "import getpass; print([getpass.getpass('> ')])",
    "the terminal by its path": "print([open('/dev/tty').readline().strip()])",
    "the terminal by its fd": "print([open(0, closefd=False).readline().strip()])",
    "the standard input": "print([sys.stdin.readline().strip()])",
    "os.read": "import os; print([os.read(0, 99).decode().strip()])",
    "fileinput": "import fileinput; print([next(fileinput.input()).strip()])",
    "cmd": "import cmd; c = cmd.Cmd(); c.default = lambda line: print([line]) or True; c.cmdloop()",
}


@pytest.mark.parametrize("code", READERS.values(), ids=READERS.keys())
def test_others_run_while_a_program_waits_at_its_terminal(code: str) -> None:
    status, out = typed_into(code, b"abc\r")
    assert (status, "['abc']" in out) == (0, True), out


def test_others_run_while_pdb_waits_for_a_command() -> None:
    status, out = typed_into("import pdb; x = 41; pdb.Pdb().set_trace(); print('on', flush=True)", b"p x + 1\rc\r")
    assert (status, "42" in out, "on" in out) == (0, True, True), out


def test_each_key_of_a_line_edited_by_readline_counts() -> None:
    _, out = typed_into("import readline; print([input('> ')])", b"abd\x7fc\x01_\r")  # backspace, start of the line
    assert "['_abc']" in out


def test_the_end_of_the_input_is_an_eof_error() -> None:
    for module in ("sys", "readline"):
        code = f"import {module}\ntry: input('> ')\nexcept EOFError: print('ended')"
        assert "ended" in typed_into(code, b"\x04")[1]


def test_ctrl_c_at_a_prompt_restores_the_terminal() -> None:
    for module in ("sys", "readline"):
        code = f"""
            import {module}
            before = termios.tcgetattr(0)
            try: input('> ')
            except KeyboardInterrupt: print('interrupted', termios.tcgetattr(0) == before)
        """
        assert "interrupted True" in typed_into(code, b"\x03")[1]


def test_a_second_prompt_waits_for_the_first() -> None:
    code = """
        first, second = dhaga.spawn(input, "first> "), dhaga.spawn(input, "second> ")
        print([first.result(), second.result()])
    """
    _, out = typed_into(code, b"1\r2\r")
    assert "['1', '2']" in out
    assert out.index("first>") < out.index("second>")
