"""``dhaga.io``: files over pipes park, and so does the standard input of a patched program."""

from __future__ import annotations

import gc
import io as standard
import os

import pytest

from dhaga import io
from dhaga.testing import settle
from tests.kit.parking import parked
from tests.kit.scripts import Program


@pytest.mark.parametrize("mode", ["r", "rb", "w", "wb"])
def test_files_over_pipes_are_of_the_standard_kinds(mode: str) -> None:
    reader, writer = os.pipe()
    with io.open(reader if "r" in mode else writer, mode) as file:
        assert isinstance(file, standard.TextIOBase) is ("b" not in mode)
        assert file.mode == mode
        assert not file.closed
    os.close(writer if "r" in mode else reader)


def test_what_no_file_can_be_is_refused_as_ever() -> None:
    reader, writer = os.pipe()
    for mode, options in (("rw", {}), ("rb", {"encoding": "utf-8"}), ("r", {"buffering": 0})):
        with pytest.raises(ValueError, match=r"mode|text"):
            io.open(reader, mode, **options)
    os.close(reader)
    os.close(writer)
    with pytest.raises(OSError, match="Bad file descriptor"):
        io.open(reader)


@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_the_text_of_a_wrapper_that_is_dropped_is_written() -> None:
    reader, writer = os.pipe()
    wrapper = io.TextIOWrapper(io.open(writer, "wb"), encoding="utf-8")
    wrapper.write("hello")
    del wrapper
    gc.collect()
    with open(reader, "rb") as file:
        assert file.read() == b"hello"
    buffer = standard.BytesIO()
    wrapper = io.TextIOWrapper(buffer)
    wrapper.write("hello")
    del wrapper
    gc.collect()
    assert buffer.closed


def test_a_reader_that_is_cancelled_while_nothing_comes_takes_nothing() -> None:
    reader, writer = os.pipe()
    with io.open(reader, "rb") as file:
        reading = parked(file.readline)
        reading.cancel()
        settle()
        os.write(writer, b"line\n")
        assert file.readline() == b"line\n"
    os.close(writer)


def test_the_standard_input_of_a_patched_program_parks() -> None:
    reader, writer = os.pipe()
    saved = os.dup(0)
    os.dup2(reader, 0)
    try:
        program = Program("""
            import dhaga.monkey; dhaga.monkey.patch()
            import multiprocessing, sys, threading, time
            def tick():
                time.sleep(0.01)
                print("ticked", flush=True)
            threading.Thread(target=tick).start()
            print(input(), flush=True)
            reader = threading.Thread(target=lambda: print(sys.stdin.readline(), end=""))
            reader.start()
            child = multiprocessing.get_context("fork").Process(target=print, args=["child"])  # closes its own
            child.start()
            child.join()
            print("forked", flush=True)
            reader.join()
        """)
    finally:
        os.dup2(saved, 0)
        os.close(saved)
        os.close(reader)
    stdout = program.process.stdout
    assert stdout is not None
    assert stdout.readline() == "ticked\n"
    os.write(writer, b"first\n")
    assert [stdout.readline() for _ in range(3)] == ["first\n", "child\n", "forked\n"]
    os.write(writer, b"second\n")
    os.close(writer)
    assert program.outcome().lines == ["second"]
