"""After a crash a log holds all that was acknowledged; a torn end is cut off, damage is named and left alone."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from examples.wal import Corrupt, WriteAheadLog
from examples.wal.records import HEADER_SIZE, RECORD_SIZE, Header, packed
from examples.wal.recovery import verify
from examples.wal.segments import segments_in

Batches = list[list[bytes]]


def segment(batches: Batches, first: int = 1) -> tuple[bytes, list[int]]:
    """A segment of these batches, and where each of its records ends."""
    header = Header(first, salt=0x5EED)
    data, ends, number = header.packed(), [HEADER_SIZE], first
    for batch in batches:
        for offset, payload in enumerate(batch):
            data += packed(header.salt, number + offset, number, payload)
            ends.append(len(data))
        number += len(batch)
    return data, ends


def kept(directory: Path, *files: tuple[int, bytes]) -> list[bytes]:
    """What a log of these segments holds once it is recovered, and written to once more."""
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir()
    for first, data in files:
        (directory / f"{first:020}.wal").write_bytes(data)
    with WriteAheadLog(directory) as wal:
        found = [payload for _, payload in wal.replay()]
        number = wal.append(b"after the recovery")
    with WriteAheadLog(directory) as wal:
        assert (wal.found.torn, list(wal.replay(number - 1))) == (0, [(number, b"after the recovery")])
    return found


def test_a_record_torn_at_any_byte_is_cut_off(tmp_path: Path) -> None:
    data, ends = segment([[b"first"], [b"second"], [b"the last one"]])
    for length in range(ends[2], ends[3]):
        assert kept(tmp_path / "log", (1, data[:length])) == [b"first", b"second"]
    assert kept(tmp_path / "log", (1, data)) == [b"first", b"second", b"the last one"]


def test_a_batch_of_which_only_a_later_part_reached_the_disk_is_cut_off(tmp_path: Path) -> None:
    data, ends = segment([[b"durable"], [b"torn", b"whole", b"whole too"]])
    hole = data[: ends[1]] + bytes(ends[2] - ends[1]) + data[ends[2] :]
    assert kept(tmp_path / "log", (1, hole)) == [b"durable"]
    later = data[: ends[2]] + bytes(ends[3] - ends[2]) + data[ends[3] :]
    assert kept(tmp_path / "log", (1, later)) == [b"durable", b"torn"]


def test_damage_before_a_later_batch_is_named_and_nothing_is_changed(tmp_path: Path) -> None:
    data, ends = segment([[b"first"], [b"second"], [b"third"]])
    path = tmp_path / f"{1:020}.wal"
    for offset in range(ends[1], ends[2]):
        damaged = data[:offset] + bytes([data[offset] ^ 1]) + data[offset + 1 :]
        path.write_bytes(damaged)
        with pytest.raises(Corrupt, match=rf"damaged at offset {ends[1]}: there record 2 should be"):
            WriteAheadLog(tmp_path)
        assert path.read_bytes() == damaged


def test_an_older_segment_has_no_torn_end(tmp_path: Path) -> None:
    older, ends = segment([[b"first"], [b"second"]])
    newer, _ = segment([[b"third"]], first=3)
    with pytest.raises(Corrupt, match=rf"offset {ends[1]}: it is not the last segment"):
        kept(tmp_path / "log", (1, older[:-1]), (3, newer))
    assert kept(tmp_path / "log", (1, older), (3, newer)) == [b"first", b"second", b"third"]


def test_a_missing_segment_is_noticed_but_for_the_oldest(tmp_path: Path) -> None:
    files = [(first, segment([[b"%d" % first]], first)[0]) for first in (1, 2, 3)]
    with pytest.raises(Corrupt, match=r"records 2 to 2 are missing"):
        kept(tmp_path / "log", files[0], files[2])
    assert kept(tmp_path / "log", files[1], files[2]) == [b"2", b"3"]


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (lambda data: data[:10], "does not begin as a segment"),
        (lambda data: b"GIF89a" + data, "does not begin as a segment"),
        (lambda data: data[:8] + b"\x02" + data[9:], "version 2; this program reads version 1"),
        (lambda data: data[:12] + b"\xff" + data[13:], "wrong checksum"),
        (lambda data: segment([[b"x"]], first=7)[0], "begins with record 7, which its name does not say"),
    ],
)
def test_a_wrong_header_is_damage(tmp_path: Path, damage: object, says: str) -> None:
    with pytest.raises(Corrupt, match=says):
        kept(tmp_path / "log", (1, damage(segment([[b"first"]])[0])))  # type: ignore[operator]


@settings(max_examples=60, deadline=None)
@given(
    batches=st.lists(st.lists(st.binary(max_size=40), min_size=1, max_size=4), min_size=1, max_size=5),
    seed=st.integers(0, 2**32),
    bits=st.integers(1, 8),
)
def test_wrong_bits_are_never_read_as_a_record(
    tmp_path_factory: pytest.TempPathFactory, batches: Batches, seed: int, bits: int
) -> None:
    directory = tmp_path_factory.mktemp("log")
    data, ends = segment(batches)
    wrong, choice = bytearray(data), random.Random(seed)
    at = choice.randrange(HEADER_SIZE, len(data))
    end = next(end for end in ends if end > at)  # of the one record that is to be wrong
    for _ in range(bits):  # within the four bytes of a burst, which no CRC-32 misses
        wrong[min(at + choice.randrange(4), end - 1)] ^= 1 << choice.randrange(8)
    (directory / f"{1:020}.wal").write_bytes(wrong)
    payloads = [payload for batch in batches for payload in batch]
    durable = len(payloads) - len(batches[-1])
    try:
        found = verify(directory)
    except Corrupt:
        assert bytes(wrong) != data
        return
    assert bytes(wrong) == data or found.torn
    count = found.next - found.first
    assert count >= durable, "a batch that was durable before another one has been lost without a word"
    with WriteAheadLog(directory) as wal:
        assert [payload for _, payload in wal.replay()] == payloads[:count]


def test_verifying_changes_nothing_and_tells_all(tmp_path: Path) -> None:
    data, ends = segment([[b"first"], [b"second"]])
    path = tmp_path / f"{1:020}.wal"
    path.write_bytes(data[:-2])
    torn = RECORD_SIZE + len(b"second") - 2
    assert (
        str(verify(tmp_path)) == f"1 records, 1 to 1, in 1 segments; {torn} bytes are torn, at {path} offset {ends[1]}"
    )
    assert path.read_bytes() == data[:-2]
    assert segments_in(tmp_path) == [path]
