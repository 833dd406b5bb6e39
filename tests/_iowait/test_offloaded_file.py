"""dhaga.open: files with the standard contract, whose blocking operations leave the other dhagas running."""

from __future__ import annotations

import asyncio
import csv
import gc
import io
import itertools
import json
import os
import pickle
import shutil
import tarfile
import threading
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import dhaga
from dhaga._workers.offload import shared
from dhaga.testing import cancel_at_every_park, settle
from tests.kit.files import LINES, Occupied
from tests.kit.scripts import run

MODES = ("r", "rb", "r+", "r+b", "w", "wb", "w+", "a", "ab", "a+b", "xb", "x")


@pytest.fixture
def main_dhaga() -> None:
    """Give the main code a scheduler: before that it is a plain thread."""
    dhaga.spawn(int).join()


# ---- the contract of the standard open


def session(open_: Callable[..., Any], file: Path, mode: str, buffering: int) -> list[Any]:
    """Do many things with a file, and note what comes of them."""
    seen: list[Any] = []
    empty, data = (b"", b"some bytes\n") if "b" in mode else ("", "søme text\n")

    def note(fn: Callable[[], Any]) -> None:
        try:
            seen.append(fn())
        except (OSError, ValueError) as error:
            seen.append(type(error))

    with open_(file, mode, buffering, **({} if "b" in mode else {"encoding": "utf-8"})) as f:
        seen += [f.readable(), f.writable(), f.seekable(), f.isatty(), f.closed, f.mode, os.fspath(f.name)]
        for step in (
            *(
                lambda: f.read(5),
                lambda: f.readline(),
                f.tell,
                lambda: f.seek(3),
                lambda: f.write(data),
                f.flush,
                f.tell,
            ),
            *(
                lambda: f.seek(0),
                lambda: next(f),
                lambda: f.seek(12),
                lambda: f.writelines([data, data]),
                lambda: f.seek(0, os.SEEK_END),
            ),
            *(lambda: f.truncate(400), lambda: f.seek(0), f.read, f.tell, f.read, lambda: f.seek(20), f.truncate),
            *(lambda: f.seek(0), f.readlines, lambda: f.seek(0), lambda: empty.join(f), lambda: f.seek(-1)),
        ):
            note(step)
    seen.append(f.closed)
    for step in (f.read, f.flush, f.tell, lambda: f.write(data), lambda: f.seek(0), lambda: next(f)):
        note(step)
    return [*seen, f.close(), file.read_bytes()]


@pytest.mark.parametrize(
    ("mode", "buffering"), [*itertools.product(MODES, (-1, 30)), *((m, 0) for m in MODES if "b" in m)]
)
def test_every_mode_does_what_the_standard_one_does(
    main_dhaga: None, tmp_path: Path, mode: str, buffering: int
) -> None:
    results = []
    for number, open_ in enumerate((open, dhaga.open)):
        directory = tmp_path / str(number)
        directory.mkdir()
        file = directory / "file"
        if "x" not in mode:
            file.write_text("".join(LINES[:30]))
        results.append(session(open_, file, mode, buffering))
        results[-1][6] = os.path.basename(results[-1][6])
    assert results[0] == results[1]


def test_a_file_is_what_the_standard_one_is(main_dhaga: None, path: Path) -> None:
    kinds = {
        ("r", -1): (io.TextIOWrapper, io.TextIOBase),
        ("rb", -1): (io.BufferedReader, io.BufferedIOBase),
        ("ab", -1): (io.BufferedWriter, io.BufferedIOBase),
        ("r+b", -1): (io.BufferedRandom, io.BufferedIOBase),
        ("rb", 0): (io.FileIO, io.RawIOBase),
    }
    for (mode, buffering), classes in kinds.items():
        with dhaga.open(path, mode, buffering) as f:
            assert all(isinstance(f, kind) for kind in (*classes, io.IOBase))
            assert f.fileno() > 2 and str(path) in repr(f)
    with dhaga.open(path) as f:
        assert isinstance(f.buffer, io.BufferedReader) and isinstance(f.buffer.raw, io.FileIO)


@pytest.mark.parametrize(
    ("mode", "options"),
    [
        *((mode, {}) for mode in ("", "q", "rw", "rr", "rbt", "+", "b", "U", "rU")),
        *(("rb", option) for option in ({"encoding": "utf-8"}, {"errors": "strict"}, {"newline": "\n"})),
        ("r", {"buffering": 0}),
        ("r", {"newline": "x"}),
        ("r", {"closefd": False}),
    ],
)
def test_what_the_standard_open_refuses_is_refused(
    main_dhaga: None, path: Path, mode: str, options: dict[str, Any]
) -> None:
    for open_ in (open, dhaga.open):
        with pytest.raises(ValueError):
            open_(path, mode, **options)


def test_misuse_is_told_at_once(main_dhaga: None, path: Path) -> None:
    for wrong in ({"mode": 1}, {"buffering": "1"}, {"pool": "wal"}, {"newline": 3}):
        with pytest.raises(TypeError):
            dhaga.open(path, **wrong)
    with pytest.raises(TypeError):
        dhaga.open(1.5)
    with pytest.raises(LookupError):
        dhaga.open(path, encoding="of this world")
    with pytest.raises(FileNotFoundError):
        dhaga.open(path.parent / "missing")
    with pytest.raises(IsADirectoryError):
        dhaga.open(path.parent)
    with pytest.warns(RuntimeWarning, match="line buffering"):
        dhaga.open(path, "rb", 1).close()
    with dhaga.open(path, "rb", 0) as f:
        with pytest.raises(TypeError):
            f.readinto(b"not to be written")


def test_a_kept_error_of_readinto_does_not_keep_the_buffer(main_dhaga: None, path: Path) -> None:
    buffer = bytearray(10)
    with dhaga.open(path, "ab", 0) as f, pytest.raises(OSError) as caught:
        f.readinto(buffer)
    buffer += b"more"
    assert caught.value.__traceback__ is not None


def test_readinto_fills_a_buffer_larger_than_a_cached_read(main_dhaga: None, path: Path) -> None:
    data = os.urandom(3_000_000)
    path.write_bytes(data)
    buffer = bytearray(len(data) + 10)
    with dhaga.open(path, "rb", 0) as f:
        assert f.readinto(buffer) == len(data) and buffer[:-10] == data
        assert f.readinto(buffer) == 0


def test_a_file_descriptor_can_be_lent_and_an_opener_opens(main_dhaga: None, path: Path) -> None:
    fd = os.open(path, os.O_RDONLY)
    with dhaga.open(fd, closefd=False) as f:
        assert f.readline() == LINES[0]
    os.close(fd)
    names = []

    def opener(name: str, flags: int) -> int:
        names.append(threading.current_thread().name)
        return os.open(name, flags)

    with dhaga.open(path, opener=opener) as f:
        assert f.readline() == LINES[0]
    assert names == ["dhaga-offload"]


def test_detached_layers_go_on_working(main_dhaga: None, path: Path) -> None:
    buffered: Any = dhaga.open(path).detach()
    gc.collect()
    assert buffered.readline() == LINES[0].encode()
    with buffered.detach() as raw:
        assert raw.seek(0) == 0 and raw.read(4) == b"line"


def test_tell_works_within_a_loop(main_dhaga: None, path: Path) -> None:
    with dhaga.open(path) as f:
        positions = [(f.tell(), line) for line, _ in zip(f, range(5), strict=False)]
        f.seek(positions[2][0])
        assert f.readline() == LINES[3]
        assert [line for _, line in positions] == LINES[:5]


# ---- what others do with files


def test_the_standard_modules_take_them(main_dhaga: None, tmp_path: Path) -> None:
    table = [[str(n), "a,b", 'c"d'] for n in range(3000)]
    with dhaga.open(tmp_path / "csv", "w", newline="") as f:
        csv.writer(f).writerows(table)
    with dhaga.open(tmp_path / "csv", newline="") as f:
        assert [*csv.reader(f)] == table
    with dhaga.open(tmp_path / "json", "w") as f:
        json.dump(table, f)
    with dhaga.open(tmp_path / "json") as f:
        assert json.load(f) == table
    with dhaga.open(tmp_path / "pickle", "wb") as f:
        pickle.dump(table, f)
    with dhaga.open(tmp_path / "pickle", "rb") as f:
        assert pickle.load(f) == table
    with dhaga.open(tmp_path / "zip", "w+b") as f:
        with zipfile.ZipFile(f, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.write(tmp_path / "csv", "csv")
        with zipfile.ZipFile(f) as archive:
            assert archive.read("csv") == (tmp_path / "csv").read_bytes() and archive.testzip() is None
    with dhaga.open(tmp_path / "tar", "wb") as f, tarfile.open(fileobj=f, mode="w:gz") as tar:
        tar.add(tmp_path / "csv", "csv")
    with dhaga.open(tmp_path / "tar", "rb") as f, tarfile.open(fileobj=f) as tar:
        member = tar.extractfile("csv")
        assert member is not None and member.read() == (tmp_path / "csv").read_bytes()
    with dhaga.open(tmp_path / "csv", "rb") as f, dhaga.open(tmp_path / "copy", "wb") as g:
        shutil.copyfileobj(f, g)
    assert (tmp_path / "copy").read_bytes() == (tmp_path / "csv").read_bytes()


# ---- who parks, and where


@pytest.mark.usefixtures("no_cache")
def test_an_operation_parks_while_others_run_and_the_buffer_serves_without(path: Path, pool: dhaga.OffloadPool) -> None:
    f = dhaga.spawn(dhaga.open, path, pool=pool).result(30)
    assert f.readline() == LINES[0]
    with Occupied(pool):
        assert [f.readline(), next(f)] == LINES[1:3]
        rest = dhaga.spawn(f.read)
        settle()
        assert rest.reason == "offload files"
    assert rest.result(30) == "".join(LINES[3:])
    with Occupied(pool):
        closing = dhaga.spawn(f.close)
        settle()
        assert closing.reason == "offload files" and not f.closed
    closing.result(30)
    assert f.closed


def test_a_plain_thread_reads_itself_unless_the_pool_is_named(path: Path, pool: dhaga.OffloadPool) -> None:
    names: list[str] = []

    def opener(name: str, flags: int) -> int:
        names.append(threading.current_thread().name)
        return os.open(name, flags)

    def reads() -> None:
        with dhaga.open(path, opener=opener) as f, dhaga.open(path, opener=opener, pool=pool) as g:
            names.append(str(f.read() == g.read() == "".join(LINES)))

    thread = threading.Thread(target=reads, name="plain")
    thread.start()
    thread.join(30)
    assert names == ["plain", "files", "True"]


def test_a_file_opened_in_an_offloaded_call_is_read_there(path: Path, pool: dhaga.OffloadPool) -> None:
    def reads() -> str:
        with dhaga.open(path, pool=pool) as f:
            return f.read()

    assert dhaga.spawn(pool.offload, reads).result(30) == "".join(LINES)


def test_a_coroutine_gets_park_error(path: Path) -> None:
    async def main() -> None:
        with pytest.raises(dhaga.ParkError):
            dhaga.open(path)
        with await dhaga.spawn(dhaga.open, path, "rb") as f:
            with pytest.raises(dhaga.ParkError):
                f.read()
            await dhaga.spawn(f.close)

    asyncio.run(main())


def test_context_variables_and_schedulers_do_not_matter(path: Path) -> None:
    with dhaga.Scheduler() as one, dhaga.Scheduler() as two:
        f = one.spawn(dhaga.open, path).result(30)
        readers = [scheduler.spawn(lambda: [*f]) for scheduler in (one, two)]
        lines = [line for reader in readers for line in reader.result(30)]
        two.spawn(f.close).result(30)
    assert sorted(lines) == sorted(LINES)


# ---- cancels


@pytest.mark.usefixtures("no_cache")
def test_a_cancel_comes_too_late_for_an_operation_and_ends_the_loop_around_it(
    path: Path, pool: dhaga.OffloadPool
) -> None:
    lines: list[str] = []
    f = dhaga.spawn(dhaga.open, path, pool=pool).result(30)
    with Occupied(pool):
        reader = dhaga.spawn(lambda: lines.extend(f))
        settle()
        reader.cancel("enough")
        settle()
        assert reader.reason == "offload files"
    with pytest.raises(dhaga.Cancelled, match="enough"):
        reader.result(30)
    assert lines == LINES[:1]
    lines.extend(f)
    assert lines == LINES
    f.close()


@pytest.mark.usefixtures("no_cache")
def test_a_timeout_is_raised_by_the_next_operation(path: Path, pool: dhaga.OffloadPool) -> None:
    f = dhaga.spawn(dhaga.open, path, pool=pool).result(30)
    occupied = Occupied(pool)
    steps: list[str] = []
    with pytest.raises(TimeoutError), dhaga.Timeout(0.001) as timeout:
        dhaga.spawn(lambda: (dhaga.sleep(0.05), occupied.gate.set()))
        steps.append(f.readline())
        steps.append(f.readline())
    assert steps == LINES[:1] and timeout.expired
    assert f.readline() == LINES[1]
    occupied.call.join(30)
    f.close()


@pytest.mark.usefixtures("no_cache")
@pytest.mark.parametrize("mode", ["r", "rb"])
def test_cancelled_or_timed_out_anywhere_a_reader_loses_no_line_and_tears_none(tmp_path: Path, mode: str) -> None:
    file = tmp_path / "few"
    file.write_text("".join(LINES[:25]))
    whole: list[Any] = LINES[:25] if mode == "r" else [line.encode() for line in LINES[:25]]

    def scenario() -> Any:
        lines: list[Any] = []
        f: Any = None

        def reads() -> None:
            nonlocal f
            f = dhaga.open(file, mode, 100)
            other = dhaga.spawn(collects)
            try:
                collects()
            finally:
                other.join()

        def collects() -> None:
            while line := f.readline():
                lines.append(line)

        victim = dhaga.spawn(reads)

        def check() -> None:
            if f is not None:
                with f:
                    lines.extend(f)
                assert sorted(lines) == sorted(whole)

        return victim, check

    assert cancel_at_every_park(scenario) >= 10


@pytest.mark.parametrize("mode", ["w", "wb"])
def test_cancelled_or_timed_out_anywhere_a_writer_leaves_whole_records_in_order(tmp_path: Path, mode: str) -> None:
    file = tmp_path / "records"
    records = [f"{n} {'r' * n}\n" for n in range(12)]

    def scenario() -> Any:
        written: list[str] = []
        file.unlink(missing_ok=True)

        def writes() -> None:
            with dhaga.open(file, mode, 100) as f:
                for record in records:
                    f.write(record if mode == "w" else record.encode())
                    written.append(record)
                    f.flush()

        victim = dhaga.spawn(writes)

        def check() -> None:
            lines = file.read_text().splitlines(keepends=True) if file.exists() else []
            assert lines[: len(written)] == written and lines == records[: len(lines)]
            assert len(lines) - len(written) in (0, 1)  # one more where the cancel came before its return

        return victim, check

    assert cancel_at_every_park(scenario) >= 12


# ---- pipes


@pytest.fixture
def fifo(tmp_path: Path) -> Path:
    os.mkfifo(tmp_path / "fifo")
    return tmp_path / "fifo"


def test_dhagas_talk_through_a_fifo(fifo: Path) -> None:
    """Neither the opening nor the waiting keeps the others from running; more is written than a pipe holds."""
    count = 300_000

    def writes() -> None:
        with dhaga.open(fifo, "w") as f:
            for line in LINES:
                f.write(line)
            f.write("x" * count)

    def reads() -> tuple[str, list[str]]:
        with dhaga.open(fifo) as f:
            return f.readline(), f.read()

    writer, reader = dhaga.spawn(writes), dhaga.spawn(reads)
    assert reader.result(30) == (LINES[0], "".join(LINES[1:]) + "x" * count)
    writer.result(30)


def test_the_wait_for_a_pipe_is_cancelled_at_once_and_nothing_is_read() -> None:
    receiving, sending = os.pipe()
    with dhaga.spawn(dhaga.open, receiving, "rb", 0).result(30) as f:
        reader = dhaga.spawn(f.read, 100)
        settle()
        assert reader.reason == f"read fd {receiving}"
        reader.cancel()
        with pytest.raises(dhaga.Cancelled):
            reader.result(30)
        with pytest.raises(TimeoutError), dhaga.Timeout(0.001):
            f.readall()
        os.write(sending, b"data")
        assert f.read(100) == b"data"
        os.close(sending)
        assert f.read(100) == f.readall() == b""


def test_a_full_pipe_does_not_block_and_the_write_can_be_cancelled() -> None:
    receiving, sending = os.pipe()
    with dhaga.spawn(dhaga.open, sending, "wb", 0).result(30) as f:
        written = 0

        def fills() -> None:
            nonlocal written
            while True:
                written += f.write(b"x" * 10_000)

        writer = dhaga.spawn(fills)
        while writer.reason != f"write fd {sending}":
            dhaga.sleep(0.001)
        writer.cancel()
        writer.join(30)
    with open(receiving, "rb") as g:
        assert len(g.read()) == written > 10_000


def test_a_file_whose_opener_was_cancelled_is_closed_when_it_opens(fifo: Path) -> None:
    files: list[Any] = []
    opening = dhaga.spawn(dhaga.open, fifo, opener=lambda *args: files.append(os.open(*args)) or files[0])
    settle()
    while shared.workers.calls:
        dhaga.sleep(0.001)
    assert opening.reason == "offload"
    opening.cancel()
    with pytest.raises(dhaga.Cancelled):
        opening.result(30)
    os.close(os.open(fifo, os.O_WRONLY))
    while not files or os.path.exists(f"/proc/self/fd/{files[0]}"):
        dhaga.sleep(0.001)


# ---- the end of a file


@pytest.mark.parametrize(("mode", "buffering"), [("w", -1), ("wb", -1), ("w+b", -1), ("wb", 0)])
def test_a_dropped_file_warns_and_is_written_without_a_park(
    main_dhaga: None, path: Path, mode: str, buffering: int
) -> None:
    f = dhaga.open(path, mode, buffering)
    f.write(b"data" if "b" in mode else "data")
    me, fd = dhaga.current(), f.fileno()
    me.parked = Unparkable()
    try:
        with pytest.warns(ResourceWarning, match="unclosed file .*lines"):
            del f
            gc.collect()
    finally:
        me.parked = []
    assert path.read_text() == "data"
    with pytest.raises(OSError):
        os.fstat(fd)


@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.parametrize(("mode", "detached"), [("w", 0), ("w", 1), ("wb", 0), ("w+", 0), ("r+b", 0)])
def test_what_was_written_to_a_file_in_a_reference_cycle_is_there_after_its_collection(
    main_dhaga: None, path: Path, mode: str, detached: int
) -> None:
    """A collection calls the finalizers of the layers in any order. The standard files lose what was written."""
    path.write_bytes(b"")
    file: Any = dhaga.open(path, mode)
    file.write(b"data" if "b" in mode else "data")
    cycle: list[Any] = [file.detach() if detached else file]
    cycle.append(cycle)
    del file, cycle
    gc.collect()
    assert path.read_text() == "data"


class Unparkable(list[str]):
    """The ``parked`` of one who must not park."""

    def append(self, reason: str) -> None:
        raise AssertionError(f"parks: {reason}")


@pytest.mark.parametrize("opening", ["dhaga.open(PATH, 'w')", "dhaga.spawn(open, PATH, 'w').result()"])
def test_what_was_written_is_there_after_an_exit_without_a_close(tmp_path: Path, opening: str) -> None:
    outcome = run(
        f"""
        import dhaga

        dhaga.spawn(int).join()
        PATH = {str(tmp_path / "file")!r}
        f = {opening}
        f.write("written")
        """
    )
    assert (outcome.status, outcome.err) == (0, "") and (tmp_path / "file").read_text() == "written"


def test_a_file_cannot_be_pickled_and_stays_open(main_dhaga: None, path: Path) -> None:
    for mode, buffering in (("r", -1), ("rb", -1), ("ab", -1), ("r+b", -1), ("rb", 0)):
        with dhaga.open(path, mode, buffering) as f:
            for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
                with pytest.raises(TypeError, match="cannot pickle"):
                    pickle.dumps(f, protocol)
            gc.collect()
            assert not f.closed


def test_closed_and_failed_files_go_without_a_word(main_dhaga: None, path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        dhaga.open(path).close()
        with pytest.raises(ValueError):
            dhaga.open(path, newline="x")
        gc.collect()


@pytest.mark.filterwarnings("ignore::ResourceWarning")  # from Python 3.15 on each layer of the file warns
@pytest.mark.usefixtures("no_cache")
def test_a_pool_that_is_shut_down_serves_no_file(path: Path) -> None:
    pool = dhaga.OffloadPool("files", threads=1)
    f = dhaga.spawn(dhaga.open, path, "rb", pool=pool).result(30)
    pool.shutdown()
    for operation in (f.read, f.close):
        with pytest.raises(RuntimeError, match=r"files.*takes no more calls"):
            operation()
    with pytest.raises(RuntimeError, match="takes no more calls"):
        dhaga.open(path, pool=pool)
    with pytest.warns(ResourceWarning, match="unclosed file"):
        del f, operation
        gc.collect()
