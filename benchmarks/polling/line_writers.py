"""Three ways for many to write lines to one output. What a caller waits for differs, and so does what a line costs.

- *lock*: each caller holds a coarse lock while its line is written, by a system call of its own.
- *queue*: a caller waits until the queue has taken its line, at once unless 1,000 are in it; the one owner of the
  output writes all that has come by one call. A line is not written yet when its caller goes on.
- *queue, acknowledged*: the same, but the caller waits until its line has been written, as with the lock.
"""

from collections.abc import Callable
from typing import Any

from benchmarks.polling.outputs import Library, Write

QUEUE_LINES = 1000


class LockedWriter:
    """All callers write, one after the other."""

    def __init__(self, library: Library, write: Write) -> None:
        self.lock = library.threading.Lock()
        self.write = write

    def say(self) -> Write:
        """Return what a caller calls with its lines."""
        return self.under_lock

    def under_lock(self, line: bytes) -> None:
        """Write a line."""
        with self.lock:
            self.write(line)

    def close(self) -> None:
        """Nothing is under way once all callers have ended."""


class QueuedWriter:
    """One writes what the others have put into its queue, all that is there at once."""

    def __init__(self, library: Library, write: Write) -> None:
        self.kit = library
        self.lines = library.queue.Queue(QUEUE_LINES)
        self.write = write
        self.fault: OSError | None = None
        self.owner = library.threading.Thread(target=self.serve, name="owner", daemon=True)
        self.owner.start()

    def say(self) -> Write:
        """Return what a caller calls with its lines."""
        return lambda line: self.lines.put((line, int))

    def serve(self) -> None:
        """Write until there is a None among the lines; after an error go on without, so that no caller waits."""
        going_on = True
        while going_on:
            batch = self.all_there_are()
            going_on = batch[-1] is not None
            self.deliver(batch if going_on else batch[:-1])

    def all_there_are(self) -> list[Any]:
        """Return at least one, and what more there is."""
        batch = [self.lines.get()]
        while batch[-1] is not None and len(batch) < QUEUE_LINES:
            try:
                batch.append(self.lines.get_nowait())
            except self.kit.queue.Empty:
                break
        return batch

    def deliver(self, batch: list[tuple[bytes, Callable[[], object]]]) -> None:
        """Write, then acknowledge."""
        try:
            if batch and self.fault is None:
                self.write(b"".join([line for line, _ in batch]))
        except OSError as error:
            self.fault = error
        for _, acknowledge in batch:
            acknowledge()

    def close(self) -> None:
        """Write the last lines. Raises: the owner's error."""
        if self.owner.is_alive():  # after a Ctrl-C a dhaga is not, and its queue may be full
            self.lines.put(None)
        self.owner.join()
        if self.fault is not None:
            raise self.fault


class AcknowledgedWriter(QueuedWriter):
    """A caller waits until its line has been written."""

    def say(self) -> Write:
        """Return what a caller calls with its lines."""
        written = self.kit.threading.Event()

        def until_written(line: bytes) -> None:
            written.clear()
            self.lines.put((line, written.set))
            written.wait()

        return until_written


SHARING: dict[str, Any] = {"lock": LockedWriter, "queue": QueuedWriter, "queue, acknowledged": AcknowledgedWriter}
