"""The attributes of a Thread: its name, ident, daemon flag and liveness. ``dhaga/threading.py`` has the methods."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from .._kernel.run.call_outs import calls_out
from .._kernel.run.preemption import found_nothing, overlong

if TYPE_CHECKING:
    from .._kernel.run.microthread import Dhaga


class ThreadAttributes:
    """The attributes of a Thread, with the contract of ``threading.Thread``."""

    _dhaga: Dhaga | None
    _name: str
    _ident: int | None
    _native_id: int | None = None
    _daemonic: bool

    def __repr__(self) -> str:
        state = "started" if self.is_alive() else "stopped" if self.ident else "initial"
        number = f" {self.ident}" if self.ident else ""
        return f"<{type(self).__name__}({self.name}, {state}{' daemon' if self.daemon else ''}{number})>"

    def _check_initialised_(self) -> None:
        if "_dhaga" not in self.__dict__:
            raise RuntimeError("Thread.__init__() was not called before this")

    @property
    def name(self) -> str:
        """The thread's name, which is only used for display. A program may change the name."""
        self._check_initialised_()
        return self._name

    @name.setter
    def name(self, name: str) -> None:
        self._check_initialised_()
        self._name = str(name)
        if self._dhaga is not None:
            self._dhaga.name = self._name

    @property
    def ident(self) -> int | None:
        """The thread's ident, unique among the living dhagas of this process; None before the start."""
        self._check_initialised_()
        return self._ident

    @property
    def native_id(self) -> int | None:
        """The number by which the operating system identifies the OS thread that runs this thread."""
        self._check_initialised_()
        return self._native_id

    @calls_out
    def is_alive(self) -> bool:
        """Return whether the thread was started and has not ended."""
        self._check_initialised_()
        if overlong:
            found_nothing()
        return self._dhaga is not None and not self._dhaga.has_ended

    @property
    def daemon(self) -> bool:
        """Whether the interpreter exits without waiting for the thread. A program may change this before the start."""
        self._check_initialised_()
        return self._daemonic

    @daemon.setter
    def daemon(self, daemonic: bool) -> None:
        self._check_initialised_()
        if self._ident is not None:  # also set in stand-ins for main code and for other running code
            raise RuntimeError("cannot set daemon status of active thread")
        self._daemonic = daemonic


def new_name(target: object) -> str:
    """Return a default name for a thread. The standard module's counter makes the name unique in the process."""
    name: str = threading._newname("Thread-%d")  # type: ignore[attr-defined]
    return name if target is None or not hasattr(target, "__name__") else f"{name} ({target.__name__})"
