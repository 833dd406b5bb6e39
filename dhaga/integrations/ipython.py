"""``%load_ext dhaga``: the cells of a Jupyter notebook run in dhagas, so that they may park.

ipykernel runs on an asyncio loop, and a cell without a top-level ``await`` is a callback there, where nothing can park.
Two methods of the shell are replaced: ``should_run_async`` makes the kernel await each cell as if it had an ``await``,
and ``run_code``, the innermost step, runs the cell's code in a dhaga of that loop, with ``run_in_dhaga``. So background
dhagas run between cells, and while a cell is parked. Code with a top-level ``await`` stays a coroutine of the loop.

SIGINT, the kernel's interrupt, raises KeyboardInterrupt in the cell: where it runs, or at its park (``CellInterrupt``).
Plain IPython does not need this, since its loop does not run between prompts: a statement is main code, which parks.

Rejected: a ``loop_runner`` of our own, as the kernel awaits cells only if the runner is asyncio's own.
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
"""Methods of the shell that ``load`` replaces, only in the instance."""


class CellRunner:
    """Replaces two methods of one shell. ``awaits``: the kernel awaits this cell, due to ``should_run_async``."""

    def __init__(self, shell: Any) -> None:
        self.shell_should_run_async: Callable[..., bool] = shell.should_run_async
        self.shell_run_code: Callable[..., Coroutine[Any, Any, bool]] = shell.run_code
        self.awaits: bool = False
        self.interrupt: CellInterrupt = CellInterrupt()

    def should_run_async(self, raw_cell: str, **options: Any) -> bool:
        """Return True for each cell of the kernel's loop; for a cell run by another cell, the shell's own answer."""
        if not on_running_loop():
            return self.shell_should_run_async(raw_cell, **options)
        self.awaits = True
        self.interrupt = CellInterrupt()
        return True

    async def run_code(self, code: Any, result: Any = None, *, async_: bool = False) -> bool:
        """Run a part of a cell as the shell does, but in a dhaga if the part contains no ``await``."""
        part = self.shell_run_code(code, result, async_=async_)
        # The kernel does not await the rest of the cell that loaded the extension.
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
    """Handler of SIGINT for one cell. It stays set between the parts of the cell, when other dhagas may run.

    Before it awaits a cell, the kernel sets a handler that cancels the cell's task, and afterwards it restores the
    previous one. ``cell`` is the dhaga that runs a part, ``kernel_handler`` the kernel's handler.
    """

    def __init__(self) -> None:
        self.cell: Any = None
        self.interrupted: bool = False
        self.kernel_handler: Any = None

    def arm(self) -> None:
        """Start to handle SIGINT, if in the main thread: a subshell is not interrupted."""
        if self.kernel_handler is None and originals.get_ident() == originals.main_thread().ident:
            self.kernel_handler = signal.signal(signal.SIGINT, self)

    def disarm(self) -> None:
        """Restore the kernel's handler of SIGINT, for a coroutine."""
        if self.kernel_handler is not None:
            signal.signal(signal.SIGINT, self.kernel_handler)
            self.kernel_handler = None

    def __call__(self, number: int, frame: object) -> None:
        me = getcurrent()
        if me is self.cell:
            raise KeyboardInterrupt
        # Since the last SIGINT another dhaga has kept the cell from running. A KeyboardInterrupt would end the kernel's
        # loop.
        if self.interrupted and isinstance(me, Dhaga):
            raise Cancelled("the kernel was interrupted")
        self.interrupted = True
        if self.cell is not None:
            self.cell.cancel_with(KeyboardInterrupt())

    def run(self, part: Coroutine[Any, Any, bool]) -> bool | None:
        """Run a part of a cell in the calling dhaga. Returns: the shell's result; None if interrupted outside it."""
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
    """Run the shell's cells in dhagas, from the next one on, if it runs on an event loop, and say so.

    Define ``%dhaga``, and the HTML of dhagas and scopes. No-op if it is loaded. Parks: never. From: ``%load_ext``.
    """
    if not is_loaded(shell):
        runner = CellRunner(shell)
        for name in REPLACED:
            setattr(shell, name, getattr(runner, name))
        _ipython_display.show_in(shell)
        print(LOADED if getattr(shell, "kernel", None) is not None else LOADED_IN_TERMINAL)


def unload(shell: Any) -> None:
    """Run cells as before. Running dhagas continue."""
    if is_loaded(shell):
        for name in REPLACED:
            delattr(shell, name)
        _ipython_display.remove_from(shell)


def is_loaded(shell: Any) -> bool:
    return isinstance(getattr(shell.run_code, "__self__", None), CellRunner)


def on_running_loop() -> bool:
    """Return whether the caller is a coroutine or a callback of a running loop, where nothing can park."""
    return _get_running_loop() is not None and not isinstance(getcurrent(), Dhaga)
