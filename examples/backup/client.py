"""The commands backup, restore, verify and list.

`jobs` passes items to workers; `rpc` repeats requests after a lost connection.
"""

from __future__ import annotations

import itertools
import os
import secrets
import socket
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Final, Protocol

from .catalogue import Snapshot, SnapshotStatus
from .chunks import BATCH_CHUNKS, Chunk, DamagedChunk, batches, digests_in, pack_chunk, unpack_chunk
from .destination import Destination, Writing, check_tree
from .jobs import Job, Plan, Summary, Worker
from .rpc import Client, Link
from .tree import DIRECTORY, FILE, LINK, NAME, Entry, Reading, Skipped, Source, in_holes, in_parts, show, whole
from .wire import BackupError, Refused

ADD_ENTRIES: Final = 500
ADD_BYTES: Final = 1024 * 1024
ADDED_TOGETHER: Final = 16  # requests in one round trip
CHECKED_TOGETHER: Final = 16  # chunks that the server reads and hashes for one request, in about 20 ms


# ---- backup ----


def backup(plan: Plan, source: str, exclude: tuple[str, ...] = ()) -> Summary:
    """Save a directory as a new snapshot.

    Raises: BackupError if no snapshot was committed.
    """
    root = os.path.abspath(source)
    if not os.path.isdir(root):
        raise BackupError(f"cannot back up {source}: it is not a directory")
    with Job(plan) as job:
        saver = Saver(job, Source(os.fsencode(root), exclude))
        job.each(saver.files(), saver.save)
        while names := saver.names_of_nothing():
            job.each(names, saver.save)
        job.summary.snapshot = saver.commit(root)
    return job.summary


class Saving(Protocol):
    """The interface that a Saver needs: a connection for the commit, and functions that report problems and notes."""

    @property
    def client(self) -> Client:
        """The connection on which the snapshot is committed."""

    def problem(self, path: bytes, text: str) -> None:
        """Report what went wrong with one entry."""

    def note(self, path: bytes, text: str) -> None:
        """Report a fact about an entry that is no problem but useful to know."""


class Saver:
    """Sends a source's files and gathers the entries of its snapshot."""

    def __init__(self, job: Saving, source: Source) -> None:
        self.job = job
        self.source = source
        self.entries: list[Entry] = []
        self.claims: dict[bytes, object] = {}

    def files(self) -> Iterator[Entry]:
        """Walk the source. Yield the files to save; add an entry at once for everything that has no bytes."""
        for entry in self.source.walk(self.job.problem, self.job.note):
            if entry.kind == FILE:
                yield entry
            else:
                self.entries.append(entry)

    def save(self, worker: Worker, entry: Entry) -> None:
        """Send the chunks of one file that the server does not have."""
        try:
            with self.source.open(entry) as reading:
                saved = self._send(worker, entry, reading)
        except Skipped as error:
            self.job.problem(entry.path, str(error))
            return
        self.entries.append(saved)
        worker.tally.files += 1

    def names_of_nothing(self) -> list[Entry]:
        """Remove hard links to files that could not be saved under their first name, for example because it is gone.

        Returns: one name of each such file, to save as the file. The other names become hard links to it.
        """
        files = {entry.path for entry in self.entries if entry.kind == FILE}
        kept, firsts = [], dict[bytes, Entry]()
        for entry in self.entries:
            if entry.kind == NAME and entry.target not in files:
                first = firsts.setdefault(entry.target, replace(entry, kind=FILE, target=b""))
                if first.path == entry.path:
                    continue
                entry = replace(entry, target=first.path)
            kept.append(entry)
        self.entries = kept
        return list(firsts.values())

    def _send(self, worker: Worker, entry: Entry, reading: Reading) -> Entry:
        digests: list[bytes] = []
        size = 0
        for batch in batches(reading.read, reading.expected):
            self._send_missing(worker, batch)
            for chunk in batch:
                digests.append(chunk.digest)
                size += len(chunk.data)
        holes = reading.holes
        size += in_holes(holes)
        if reading.has_changed(size):
            self.job.problem(entry.path, "changed while it was read: what was saved may be partly old and partly new")
        mtime, owner = reading.status.st_mtime_ns, (entry.uid, entry.gid)
        return Entry(entry.path, FILE, entry.mode, mtime, size, b"", b"".join(digests), *owner, holes)

    def _send_missing(self, worker: Worker, batch: list[Chunk]) -> None:
        # Only one batch sends a chunk, even if many files have it. If that fails, the job fails and commits nothing.
        claim = object()
        mine = {digest: data for digest, data in batch if self.claims.setdefault(digest, claim) is claim}
        packed: dict[bytes, bytes] = {}
        if mine:
            worker.client.run(lambda link: _send_lacking(link, mine, packed))
        tally = worker.tally
        tally.sent += sum(map(len, packed.values()))
        tally.bytes += sum(len(chunk.data) for chunk in batch)
        tally.deduplicated += sum(len(chunk.data) for chunk in batch) - sum(len(mine[digest]) for digest in packed)

    def commit(self, root: str) -> str:
        """Send the entries to the server, and let the server commit them.

        Returns: the snapshot's name.
        """
        name = f"{time.strftime('%Y%m%d-%H%M%S')}-{secrets.token_hex(3)}"
        self.commit_as(name, root)
        return name

    def commit_as(self, name: str, root: str) -> None:
        """Commit under a given name. If several clients use the same name, even at once, one snapshot remains."""
        self.entries.sort(key=lambda entry: entry.path)
        about = description(name, root)
        self.job.client.run(lambda link: _commit(link, about, self.entries))

    def claim(self, name: str, root: str) -> bool:
        """Begin the snapshot that `commit_as` will commit, so that others see that it is in progress.

        Returns: False if it is committed already.
        """
        about = description(name, root)
        return bool(self.job.client.call("begin", *about))


def description(name: str, root: str) -> tuple[str, str, str]:
    """Return the arguments that begin a snapshot: its name, this host, and the directory as text."""
    return name, socket.gethostname(), os.fsencode(root).decode(errors="backslashreplace")


def _send_lacking(link: Link, chunks: dict[bytes, bytes], packed: dict[bytes, bytes]) -> None:
    have = link.call("have", list(chunks))
    lacking = [digest for digest, there in zip(chunks, have, strict=True) if not there]
    for digest in lacking:
        if digest not in packed:  # it is packed already if this is repeated after a lost connection
            packed[digest] = pack_chunk(chunks[digest])
    if lacking:
        link.call_each([("put", digest, packed[digest]) for digest in lacking])


def _commit(link: Link, about: tuple[str, str, str], entries: list[Entry]) -> None:
    if not link.call("begin", *about):
        return  # it was committed, and the reply was lost
    count = 0
    groups = _groups(part for entry in entries for part in in_parts(entry))
    while some := list(itertools.islice(groups, ADDED_TOGETHER)):
        link.call_each([("add", [part.to_wire() for part in group]) for group in some])
        count += sum(map(len, some))
    link.call("commit", count)


def _groups(parts: Iterator[Entry]) -> Iterator[list[Entry]]:
    group: list[Entry] = []
    room = ADD_BYTES
    for part in parts:
        group.append(part)
        room -= part.weight
        if room < 0 or len(group) == ADD_ENTRIES:
            yield group
            group, room = [], ADD_BYTES
    if group:
        yield group


# ---- list ----


def snapshots(client: Client) -> list[Snapshot]:
    """Return the server's snapshots."""
    client.connect()
    return [Snapshot(*values) for values in client.call("snapshots")]


def standing(client: Client, names: list[str]) -> list[SnapshotStatus | None]:
    """Return the states of the snapshots with these names; None if no client works on a snapshot."""
    return [found and SnapshotStatus(*found) for found in client.call("standing", names)]


def entries_of(job: Job, name: str) -> list[Entry]:
    """Fetch the entries of a snapshot, and store its whole name in the summary."""
    key, job.summary.snapshot = job.client.call("find", name)
    return list(whole(_parts(job.client, key)))


def _parts(client: Client, key: int) -> Iterator[Entry]:
    first = 0
    while page := client.call("page", key, first):
        yield from map(Entry.from_wire, page)
        first += len(page)


# ---- restore ----


def restore(plan: Plan, name: str, destination: str, *, overwrite: bool = False, owners: bool = True) -> Summary:
    """Write a snapshot's tree. A damaged file is reported and left out.

    `owners`: restore each file's owner, as far as this user may; otherwise all files belong to this user.

    Raises: BackupError before a byte is written if a path leads out of the destination.
    """
    with Job(plan) as job:
        entries = entries_of(job, name)
        check_tree(entries)
        with Destination(destination, overwrite=overwrite, owners=owners, note=job.note) as place:
            restorer = Restorer(job, place)
            directories = _of(DIRECTORY, entries)
            restorer.one_by_one(directories, lambda entry: place.make_directory(entry.path))
            job.each(_of(FILE, entries), restorer.fetch)
            restorer.one_by_one(_of(NAME, entries), restorer.add_name)
            restorer.one_by_one(_of(LINK, entries), place.make_link)
            restorer.one_by_one(directories[::-1], place.finish_directory)
    return job.summary


def _of(kind: str, entries: list[Entry]) -> list[Entry]:
    return [entry for entry in entries if entry.kind == kind]


@dataclass
class Restorer:
    """Fetches files into a destination."""

    job: Job
    place: Destination
    restored: set[bytes] = field(default_factory=set)

    def one_by_one(self, entries: list[Entry], make: Callable[[Entry], None]) -> None:
        """Create the entries that have no bytes. Report those that cannot be created."""
        for entry in entries:
            try:
                make(entry)
            except OSError as error:
                self.job.problem(entry.path, f"cannot be written: {error.strerror}")

    def fetch(self, worker: Worker, entry: Entry) -> None:
        """Restore one file."""
        try:
            with self.place.new_file(entry) as file:
                written = self._write(worker, entry, file)
            self.restored.add(entry.path)
            worker.tally.files += 1
            worker.tally.bytes += written
        except (DamagedChunk, Refused) as error:
            self.job.problem(entry.path, str(error))
        except OSError as error:
            self.job.problem(entry.path, f"cannot be written: {error.strerror}")

    def add_name(self, entry: Entry) -> None:
        """Add a name to a restored file. Do nothing if the file was not restored."""
        if entry.target in self.restored:
            self.place.make_name(entry)
        else:
            self.job.problem(entry.path, f"not restored: it is the same file as {show(entry.target)}")

    def _write(self, worker: Worker, entry: Entry, file: int) -> int:
        writing = Writing(file, entry.holes)
        for data in fetched(worker, digests_in(entry.chunks)):
            writing.write(data)
        found = writing.written + in_holes(entry.holes)
        if found != entry.size:
            raise DamagedChunk(f"it has {found} bytes in the store, {entry.size} in the snapshot")
        if entry.holes:
            os.ftruncate(file, entry.size)  # the file may end with a hole
        return writing.written


def fetched(worker: Worker, digests: list[bytes]) -> Iterator[bytes]:
    """Fetch chunks in order.

    Raises: DamagedChunk if a chunk does not match its name.
    """
    done = 0
    while wanted := digests[done : done + BATCH_CHUNKS]:
        answer = worker.client.call("get", wanted)
        if not answer:
            raise Refused("the server sent no chunk where it was asked for some")
        for digest, packed in zip(wanted, answer, strict=False):
            worker.tally.sent += len(packed)
            yield unpack_chunk(digest, packed)
        done += len(answer)


# ---- verify ----


def verify(plan: Plan, name: str) -> Summary:
    """Let the server read every chunk of a snapshot and compare it with its name."""
    with Job(plan) as job:
        verifier = Verifier(job)
        job.each(_of(FILE, entries_of(job, name)), verifier.check)
    return job.summary


class Verifier:
    """Checks files. A chunk that several files share is read once."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.found: dict[bytes, str] = {}

    def check(self, worker: Worker, entry: Entry) -> None:
        """Check one file."""
        digests = digests_in(entry.chunks)
        new = [digest for digest in dict.fromkeys(digests) if digest not in self.found]
        for start in range(0, len(new), CHECKED_TOGETHER):
            some = new[start : start + CHECKED_TOGETHER]
            self.found.update(zip(some, worker.client.call("check", some), strict=True))
        for wrong in {self.found[digest] for digest in digests if self.found[digest]}:
            self.job.problem(entry.path, wrong)
        worker.tally.files += 1
        worker.tally.bytes += entry.size
