"""Run as a program: fail one allocation, the first, the second, … to the last, of each use of a compiled function.

Arguments: the names of uses; all without one. A forked child tries the allocations of a use; if it dies, another child
goes on after the fatal one. Prints: a line a case: the use, the allocation, the outcome, and what the objects hold.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections.abc import Callable
from typing import Any

import dhaga
from dhaga.testing import virtual_clock
from tests._kernel import compiled_uses
from tests._kernel.compiled_uses import Partner, Use

_testcapi: Any = __import__("_testcapi")

SECONDS = 30
ENDLESS = 500
"""More allocations than any call has."""


class Strike:
    """One allocation that fails, and whether it was reached."""

    def __init__(self, number: int) -> None:
        self.reached = True
        Partner.stop_striking = self.stop
        _testcapi.set_nomemory(number, number + 1)

    def stop(self) -> None:
        try:
            bytearray(100)
            bytes(100)
        except MemoryError:
            self.reached = False
        finally:
            _testcapi.remove_mem_hooks()


def run_case(prepare: Callable[[], Use], number: int) -> str:
    """Return the outcome and what the objects hold; "over" if the call has fewer allocations."""
    dhaga.sleep(0.001)  # a lap begins: the end of a long one would go through the hub
    call, state = prepare()
    gc.collect()  # empties the lists of free objects, so that these are allocated again
    strike = Strike(number)
    try:
        call()
        done = True
    except MemoryError:
        done = False
    strike.stop()
    return f"{'done' if done else 'failed'}; {state()}" if strike.reached else "over"


def sweep(name: str, prepare: Callable[[], Use], first: int, pipe: int) -> None:
    """Try the allocations from ``first`` on. Writes: a line each; its beginning comes before the try."""

    def body() -> None:
        if first == 0:
            _, state = prepare()
            os.write(pipe, f"{name}: untouched: {state()}\n".encode())
            call, state = prepare()
            call()
            os.write(pipe, f"{name}: whole: {state()}\n".encode())
        for number in range(first, ENDLESS):
            os.write(pipe, f"{name}: {number}: ".encode())
            try:
                told = run_case(prepare, number)
            except BaseException as error:
                told = f"ended by {type(error).__name__}: {error}"
            os.write(pipe, f"\n{name}: {number}: {told}\n".encode())
            if not told.startswith(("done", "failed")):
                os._exit(0 if told == "over" else 1)

    os.dup2(pipe, 2)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.alarm(SECONDS)
    gc.disable()
    with virtual_clock():
        dhaga.spawn(body).result()
    os._exit(2)


def run_use(name: str, prepare: Callable[[], Use]) -> None:
    first = 0
    while True:
        read, write = os.pipe()
        pid = os.fork()
        if pid == 0:
            try:
                sweep(name, prepare, first, write)
            finally:
                os._exit(3)
        os.close(write)
        with open(read, encoding="utf-8") as file:
            lines = [line.strip("\n") for line in file if line.startswith(f"{name}: ")]
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        cases = {line.split(": ")[1]: line for line in lines}  # each case's last line, after lines logged meanwhile
        print(*cases.values(), sep="\n", flush=True)
        number = list(cases)[-1]
        if status == 0 or not number.isdigit():
            return
        first = int(number) + 1


def main(names: list[str]) -> None:
    uses = compiled_uses.uses(*compiled_uses.contexts())
    gc.freeze()  # so that a collection takes no time
    for name in names or uses:
        run_use(name, uses[name])


if __name__ == "__main__":
    main(sys.argv[1:])
    os._exit(0)
