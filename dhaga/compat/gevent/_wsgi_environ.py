"""Log classes and environ classes (dicts) of ``gevent.pywsgi``. The repr of a SecureEnviron can hide its values."""

from __future__ import annotations

import logging
from typing import Any

__all__ = ["Environ", "LoggingLogAdapter", "NoLog", "SecureEnviron"]


class Environ(dict[str, Any]):
    """A request's environ. Unpickling an Environ, or ``copy.copy``, returns a plain dict."""

    __slots__ = ()

    def copy(self) -> Any:
        """Return a copy of the same class."""
        return type(self)(self)

    def __reduce_ex__(self, protocol: Any) -> Any:
        return dict, (), None, None, iter(self.items())


class SecureEnviron(Environ):
    """An Environ whose repr shows no values, or only values of ``whitelist_keys``. Source: ``gevent.pywsgi``.

    If an attribute is not set on the object, the class's attribute with the prefix ``default_`` is used.
    """

    default_secure_repr = True
    default_whitelist_keys: Any = ()
    default_print_masked_keys = True

    __slots__ = ("print_masked_keys", "secure_repr", "whitelist_keys")

    secure_repr: bool
    whitelist_keys: Any
    print_masked_keys: bool

    def __getattr__(self, name: str) -> Any:
        if name not in SecureEnviron.__slots__:
            raise AttributeError(name)
        return getattr(type(self), f"default_{name}")

    def __repr__(self) -> str:
        if not self.secure_repr:
            return dict.__repr__(self)
        if not self.whitelist_keys:
            return f"<pywsgi.SecureEnviron dict (keys: {len(self)}) at {id(self):#x}>"
        shown = self.whitelist_keys
        masked = {key: "<MASKED>" for key in self if key not in shown} if self.print_masked_keys else {}
        return repr({key: masked.get(key, value) for key, value in self.items() if key in shown or key in masked})

    __str__ = __repr__


class LoggingLogAdapter:
    """A file whose lines are written to a logger. All other attributes are the logger's attributes."""

    __slots__ = ("_level", "_logger")

    def __init__(self, logger: Any, level: int = logging.INFO) -> None:
        object.__setattr__(self, "_logger", logger)
        object.__setattr__(self, "_level", level)

    def write(self, msg: str) -> None:
        """Log one line."""
        self._logger.log(self._level, msg.rstrip("\n"))

    def flush(self) -> None:
        """Do nothing."""

    def writelines(self, lines: Any) -> None:
        """Log each line."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._logger, name)

    def __setattr__(self, name: str, value: object) -> None:
        setattr(self._logger, name, value)

    def __delattr__(self, name: str) -> None:
        delattr(self._logger, name)


class NoLog:
    """A log that discards all lines."""

    def write(self, *_: object) -> None:
        """Discard a line."""

    def flush(self) -> None:
        """Do nothing."""

    writelines = write
