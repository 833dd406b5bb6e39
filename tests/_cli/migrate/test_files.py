"""The files that ``migrate`` reads: which they are, and their text as it stands on disk."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from dhaga._cli.migrate.files import Source, Unread, decode, python_files, read, write


def found(path: Path) -> list[str]:
    unread: list[Unread] = []
    files = [os.path.relpath(each, path) for each in python_files(str(path), unread)]
    assert unread == []
    return files


def test_python_files_are_found_by_suffix_or_first_line_in_order(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    for name in ("b/z.py", "a.py", "c.pyw", "notes.txt", "data.pyc"):
        (tmp_path / name).touch()
    (tmp_path / "script").write_text("#!/usr/bin/env python3\n")
    (tmp_path / "other").write_text("#!/bin/sh\n")
    assert found(tmp_path) == ["a.py", "c.pyw", "script", "b/z.py"]


def test_what_is_not_of_the_project_is_left_out(tmp_path: Path) -> None:
    for name in (".git", ".venv", "__pycache__", "node_modules", "env", "src"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "x.py").touch()
    (tmp_path / "env" / "pyvenv.cfg").touch()
    assert found(tmp_path) == ["src/x.py"]


def test_a_loop_of_links_ends_and_a_file_is_read_once(tmp_path: Path) -> None:
    (tmp_path / "one.py").touch()
    (tmp_path / "two.py").symlink_to("one.py")
    os.link(tmp_path / "one.py", tmp_path / "three.py")
    (tmp_path / "broken.py").symlink_to("nowhere.py")
    (tmp_path / "loop.py").symlink_to("loop.py")
    (tmp_path / "again").symlink_to(tmp_path)
    assert found(tmp_path) == ["one.py"]


def test_pipes_are_not_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.py")
    os.mkfifo(tmp_path / "pipe")
    assert found(tmp_path) == []
    unread: list[Unread] = []
    assert read(str(tmp_path / "pipe.py"), unread) is None
    assert unread == [Unread(str(tmp_path / "pipe.py"), "not a regular file")]


def test_a_path_may_be_a_file_of_any_name(tmp_path: Path) -> None:
    (tmp_path / "gunicorn.conf").touch()
    assert list(python_files(str(tmp_path / "gunicorn.conf"), [])) == [str(tmp_path / "gunicorn.conf")]


def test_what_cannot_be_read_is_noted_and_the_rest_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "locked").mkdir()
    (tmp_path / "a.py").touch()
    listing = os.scandir

    def scandir(path: str) -> object:
        if path.endswith("locked"):
            raise PermissionError(13, "Permission denied", path)
        return listing(path)

    monkeypatch.setattr(os, "scandir", scandir)
    unread: list[Unread] = []
    assert list(python_files(str(tmp_path), unread)) == [str(tmp_path / "a.py")]
    assert unread == [Unread(str(tmp_path / "locked"), "Permission denied")]
    assert read(str(tmp_path / "missing.py"), unread) is None
    assert unread[1:] == [Unread(str(tmp_path / "missing.py"), "No such file or directory")]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read all files")
def test_a_file_without_permission_is_noted(tmp_path: Path) -> None:
    (tmp_path / "a.py").touch(0)
    unread: list[Unread] = []
    assert read(str(tmp_path / "a.py"), unread) is None
    assert unread == [Unread(str(tmp_path / "a.py"), "Permission denied")]


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"x = 'a'\r\ny = 1\r\n", "x = 'a'\r\ny = 1\r\n"),
        (b"\xef\xbb\xbfx = '\xc3\xa9'\n", "x = 'é'\n"),
        (b"# coding: latin-1\nx = '\xe9'\n", "# coding: latin-1\nx = 'é'\n"),
        (b"\xef\xbb\xbf# coding: utf-8\n", "# coding: utf-8\n"),
        (b"#!/usr/bin/python\n# -*- coding: shift_jis -*-\nx = '\x82\xa0'\n",
         "#!/usr/bin/python\n# -*- coding: shift_jis -*-\nx = 'あ'\n"),
        (b"", ""),
    ],
)  # fmt: skip
def test_a_text_is_decoded_as_python_does_and_encoded_as_it_was(data: bytes, text: str) -> None:
    source = decode("x.py", data)
    assert source.text == text
    assert source.encoded(text) == data


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"x = '\xe9'\n", "invalid or missing encoding declaration|not utf-8"),
        (b"# coding: klingon\n", "unknown encoding"),
        (b"# coding: ascii\nx = '\xe9'\n", "not ascii: ordinal not in range"),
    ],
)
def test_what_cannot_be_decoded_is_a_syntax_error(data: bytes, why: str) -> None:
    with pytest.raises(SyntaxError, match=why):
        decode("x.py", data)


def test_a_file_is_replaced_with_its_mode_and_a_link_stays_one(tmp_path: Path) -> None:
    (tmp_path / "real.py").write_bytes(b"old\r\n")
    (tmp_path / "real.py").chmod(0o754)
    (tmp_path / "link.py").symlink_to("real.py")
    write(Source(str(tmp_path / "link.py"), "old\r\n", "utf-8", b"\xef\xbb\xbf"), "new é\r\n")
    assert (tmp_path / "real.py").read_bytes() == b"\xef\xbb\xbfnew \xc3\xa9\r\n"
    assert (tmp_path / "link.py").is_symlink()
    assert (tmp_path / "real.py").stat().st_mode & 0o777 == 0o754
    assert sorted(os.listdir(tmp_path)) == ["link.py", "real.py"]


def test_a_text_that_the_encoding_lacks_leaves_the_file(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_bytes(b"old\n")
    with pytest.raises(UnicodeEncodeError):
        write(Source(str(tmp_path / "a.py"), "old\n", "ascii"), "é\n")
    assert (tmp_path / "a.py").read_bytes() == b"old\n"
