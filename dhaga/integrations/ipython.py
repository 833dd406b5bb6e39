"""The IPython extension: after ``%load_ext dhaga``, the cells of a Jupyter notebook run in dhagas and may park.

ipykernel runs a cell without a top-level ``await`` in a callback of its asyncio loop, where nothing can park.
Two methods of the shell are replaced. ``should_run_async`` makes the kernel await each cell, even without an ``await``.
``run_code``, the innermost step, runs the cell's code in a dhaga of that loop, with ``run_in_dhaga``. So background
dhagas run between cells, and while a cell is parked. Code with a top-level ``await`` stays a coroutine of the loop.

SIGINT, the kernel's interrupt, raises KeyboardInterrupt in the running or parked cell (``CellInterrupt``). IPython in a
terminal does not need the extension: its loop runs only at prompts, so a statement is main code, which may park.

Rejected: a ``loop_runner`` of our own. The kernel awaits cells only if the runner is asyncio's.
"""

from __future__ import annotations

import signal
from asyncio import _get_running_loop
from collections.abc import Callable, Coroutine
from typing import Any

from greenlet import getcurrent

from .._kernel import originals
from .._kernel.api import current
from .._kernel.errors import Cancelled
from .._kernel.run.microthread import Dhaga
from ..aio._run_in_dhaga import run_in_dhaga
from . import _ipython_display

LOADED = (
    "dhaga: from the next cell on, cells run in dhagas and can wait. %dhaga shows all dhagas, %unload_ext dhaga ends "
    "this."
)
LOADED_IN_TERMINAL = "dhaga: statements can wait here without this extension. %dhaga shows all dhagas."

REPLACED = ("should_run_async", "run_code")
"""Methods that ``load`` replaces in the shell's instance, not in its class."""


class CellRunner:
    """Replaces two methods of a shell. ``awaits``: whether ``should_run_async`` has made the kernel await a cell."""

    def __init__(self, shell: Any) -> None:
        self.shell_should_run_async: Callable[..., bool] = shell.should_run_async
        self.shell_run_code: Callable[..., Coroutine[Any, Any, bool]] = shell.run_code
        self.awaits: bool = False
        self.interrupt: CellInterrupt = CellInterrupt()

    def should_run_async(self, raw_cell: str, **options: Any) -> bool:
        """Return True for a cell of the kernel's loop, or the shell's own answer for a cell that another cell runs."""
        if not on_running_loop():
            return self.shell_should_run_async(raw_cell, **options)
        self.awaits = True
        self.interrupt = CellInterrupt()
        return True

    async def run_code(self, code: Any, result: Any = None, *, async_: bool = False) -> bool:
        """Run a part of a cell as the shell does, but in a dhaga if the part contains no ``await``."""
        part = self.shell_run_code(code, result, async_=async_)
        # The kernel does not await the remaining parts of the cell that loaded the extension.
        if not self.awaits or not on_running_loop():
            return await part
        if async_:
            self.interrupt.disarm()
            return await part
        self.interrupt.arm()
        failed = await run_in_dhaga(self.interrupt.run, part, name="cell")
        if failed is None:
            raise KeyboardInterrupt
        return failed


class CellInterrupt:
    """The handler of SIGINT for one cell. It stays set between the parts of the cell, when other dhagas may run.

    Before the kernel awaits a cell, it sets a handler that cancels the cell's task. Afterwards it restores the previous
    handler. ``cell`` is the dhaga that runs a part of the cell, ``kernel_handler`` is the kernel's handler.
    """

    def __init__(self) -> None:
        self.cell: Any = None
        self.interrupted: bool = False
        self.kernel_handler: Any = None

    def arm(self) -> None:
        """Set this handler of SIGINT in the main thread. In other threads, which run subshells, do nothing."""
        if self.kernel_handler is None and originals.get_ident() == originals.main_thread().ident:
            self.kernel_handler = signal.signal(signal.SIGINT, self)

    def disarm(self) -> None:
        """Restore the kernel's handler of SIGINT. That handler interrupts coroutines."""
        if self.kernel_handler is not None:
            signal.signal(signal.SIGINT, self.kernel_handler)
            self.kernel_handler = None

    def __call__(self, number: int, frame: object) -> None:
        me = getcurrent()
        if me is self.cell:
            raise KeyboardInterrupt
        # The interrupted dhaga has kept the cell from running since the last SIGINT. A KeyboardInterrupt would end the
        # kernel's loop.
        if self.interrupted and isinstance(me, Dhaga):
            raise Cancelled("the kernel was interrupted")
        self.interrupted = True
        if self.cell is not None:
            self.cell.cancel_with(KeyboardInterrupt())

    def run(self, part: Coroutine[Any, Any, bool]) -> bool | None:
        """Run a part of a cell in the calling dhaga.

        Returns: the shell's result, or None after a KeyboardInterrupt that the shell has not handled.
        """
        try:
            self.cell = current()
            if self.interrupted:
                return None
            part.send(None)
        except StopIteration as end:
            return bool(end.value)
        except KeyboardInterrupt:
            return None
        finally:
            self.cell = None
            part.close()
        raise RuntimeError("a part of a cell without await has awaited something")


def load(shell: Any) -> None:
    """Make a shell run its next cells in dhagas if the shell runs on an event loop. Print a notice.

    Register ``%dhaga``, and the HTML of dhagas and scopes. Do nothing if the extension is already loaded.
    Parks: never. From: ``%load_ext``.
    """
    if not is_loaded(shell):
        runner = CellRunner(shell)
        for name in REPLACED:
            setattr(shell, name, getattr(runner, name))
        _ipython_display.show_in(shell)
        print(LOADED if getattr(shell, "kernel", None) is not None else LOADED_IN_TERMINAL)


def unload(shell: Any) -> None:
    """Restore the shell's methods. Running dhagas continue."""
    if is_loaded(shell):
        for name in REPLACED:
            delattr(shell, name)
        _ipython_display.remove_from(shell)


def is_loaded(shell: Any) -> bool:
    return isinstance(getattr(shell.run_code, "__self__", None), CellRunner)


def on_running_loop() -> bool:
    """Return whether the caller is a coroutine or a callback of a running loop, where nothing can park."""
    return _get_running_loop() is not None and not isinstance(getcurrent(), Dhaga)
