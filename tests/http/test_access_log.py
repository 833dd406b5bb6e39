"""The access log."""

from __future__ import annotations

import errno
import logging
from pathlib import Path

import pytest

from tests.http.wire import (
    answer,
    ask,
    get,
    hello,
    serving,
)


def test_the_access_log_tells_each_request_and_nobody_can_forge_a_line() -> None:
    lines: list[str] = []
    fields = 'Referer: a"b\\', "User-Agent: ä"
    with serving(hello, access_log=lines.append) as server:
        ask(server, get("/a?b") + get('/c"', *fields, method="POST"))
    first, second = lines
    assert first.startswith("127.0.0.1 - - [") and first.endswith('] "GET /a?b HTTP/1.1" 200 5 "-" "-"')
    assert second.endswith('] "POST /c\\" HTTP/1.1" 200 5 "a\\"b\\\\" "\\xe4"')


def test_the_access_log_goes_to_a_logger_or_a_file(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    answer(hello, access_log=True)
    assert [r.name for r in caplog.records if "GET / HTTP/1.1" in r.getMessage()] == ["dhaga.access"]
    with (tmp_path / "log").open("w+") as file:
        answer(hello, access_log=file)
        file.seek(0)
        assert file.read().count("\n") == 1


@pytest.mark.logs
def test_a_full_disk_costs_lines_of_the_log_and_no_request(caplog: pytest.LogCaptureFixture) -> None:
    lines: list[str] = []
    disk_is_full = [False, True, True, False, True]

    def write(line: str) -> None:
        lines.append(line)
        if disk_is_full[len(lines) - 1]:
            raise OSError(errno.ENOSPC, "No space left on device")

    with serving(hello, access_log=write) as server:
        assert ask(server, get("/") * 5).count(b"200 OK") == 5  # of one connection
    assert [record.getMessage() for record in caplog.records] == [
        "the access log cannot be written: [Errno 28] No space left on device. Its lines are lost meanwhile"
    ] * 2
