"""What gevent's pywsgi gives as environ and takes as log."""

from __future__ import annotations

import copy
import pickle
from typing import Any

from dhaga.compat.gevent.pywsgi import Environ, LoggingLogAdapter, SecureEnviron


def test_a_secure_environ_shows_what_it_is_told_to_show() -> None:
    environ = SecureEnviron({"secret": "xyz", "path": "/"})
    assert "xyz" not in repr(environ) and "keys: 2" in str(environ)
    environ.whitelist_keys = ("path",)
    assert repr(environ) == "{'secret': '<MASKED>', 'path': '/'}"
    environ.print_masked_keys = False
    assert str(environ) == "{'path': '/'}"
    environ.secure_repr = False
    assert repr(environ) == str(dict(environ))


def test_a_copy_is_of_its_class_and_a_pickle_is_a_dict() -> None:
    for kind in (Environ, SecureEnviron):
        environ = kind(key="value")
        assert type(environ.copy()) is kind
        assert type(copy.copy(environ)) is type(pickle.loads(pickle.dumps(environ))) is dict


class Logger:
    lines: list[tuple[int, str]]

    def log(self, level: int, line: str) -> None:
        self.lines.append((level, line))


def test_a_logger_as_a_log_is_the_logger_for_all_but_lines() -> None:
    logger = Logger()
    adapter: Any = LoggingLogAdapter(logger, 30)
    adapter.lines = []
    adapter.writelines(["one\n", "two"])
    adapter.flush()
    assert logger.lines == [(30, "one"), (30, "two")] and adapter.lines is logger.lines
    del adapter.lines
    assert not hasattr(logger, "lines")
