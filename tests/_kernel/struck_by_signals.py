"""Run as a program: let a signal arrive while each compiled function runs, in main code and in a dhaga.

Arguments: the names of uses; all without one. C sends the signal and then calls the function, with no bytecode between.
So Python calls the handler at the next bytecode, in code that the function calls or after its return.
Prints: a line a case: the use, whether it is in a dhaga and the handler raises, and how often the handler ran and its
error came out. The line ends with the objects' state: untouched, as after a whole call, or else what they hold.
"""

from __future__ import annotations

import ctypes
import operator
import os
import sys
import time
from collections.abc import Callable
from functools import partial

import dhaga
from dhaga import signal
from tests._kernel import compiled_uses
from tests._kernel.compiled_uses import Use

PATIENCE = 30
SENT_BY_C: Callable[[], object] = partial(ctypes.PyDLL(None)["raise"], signal.SIGUSR1)
INTERNAL = ("Scheduler.", "Dhaga.", "OwnedLock.", "WaitQueue.", "Timers.")
"""Beginnings of the names of functions that main code does not call."""


class Struck(Exception):
    """The error that a handler raises."""


class Case:
    def __init__(self, prepare: Callable[[], Use], raises: bool) -> None:
        self.prepare, self.raises = prepare, raises
        self.handled = self.raised = 0
        self.states: list[object] = []

    def handler(self, *_: object) -> None:
        self.handled += 1
        if self.raises:
            raise Struck

    def body(self) -> None:
        _, state = self.prepare()
        self.states.append(state())
        call, state = self.prepare()
        call()
        self.states.append(state())
        call, state = self.prepare()
        steps = [SENT_BY_C, call]
        try:
            list(map(operator.call, steps))
            self.wait()
        except Struck:
            self.raised += 1
        self.wait()
        self.states.append(state())

    def wait(self) -> None:
        deadline = time.monotonic() + PATIENCE
        while (self.handled, self.raised) != (1, self.raises) and time.monotonic() < deadline:
            dhaga.sleep(0)

    def run(self, in_dhaga: bool) -> str:
        signal.signal(signal.SIGUSR1, self.handler)
        if not in_dhaga:
            self.body()
            return str(self)
        struck = dhaga.spawn(self.body)
        while struck.is_alive():
            try:
                struck.join()
            except Struck:
                self.raised += 1
        struck.result()
        return str(self)

    def __str__(self) -> str:
        untouched, whole, found = self.states
        state = "untouched" if found == untouched else "whole" if found == whole else f"{found} of {untouched}, {whole}"
        return f"handled {self.handled}, raised {self.raised}; {state}"


def main(names: list[str]) -> None:
    uses = compiled_uses.uses(*compiled_uses.contexts())
    for name in names or uses:
        for in_dhaga in (True, False):
            for raises in (False, True):
                if in_dhaga or not name.startswith(INTERNAL):
                    try:
                        told = Case(uses[name], raises).run(in_dhaga)
                    except BaseException as error:
                        told = f"ended by {type(error).__name__}: {error}"
                    print(f"{name} {in_dhaga:d}{raises:d}: {told}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
    os._exit(0)
