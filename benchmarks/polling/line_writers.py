"""Three ways for many callers to write lines to one output. They differ in the caller's wait and in the cost of a line.

- *lock*: each caller holds one lock while it writes its line with a separate system call.
- *queue*: each caller puts its line into a queue, and waits only if 1,000 lines are in the queue. A single owner of the
  output writes all queued lines with one call. When the caller continues, its line may not be written yet.
- *queue, acknowledged*: the same, but the caller waits until its line has been written, as with the lock.
"""

from collections.abc import Callable
from typing import Any

from benchmarks.polling.outputs import Library, Write

QUEUE_LINES = 1000


class LockedWriter:
    """An output to which the callers write one after another, under a lock."""

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
        """Do nothing, because no write is in progress once all callers have ended."""


class QueuedWriter:
    """An output whose owner writes the lines that callers have put into its queue, all at once."""

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
        """Write until None is in the queue. After an error, only acknowledge the lines, so that no caller waits."""
        going_on = True
        while going_on:
            batch = self.all_there_are()
            going_on = batch[-1] is not None
            self.deliver(batch if going_on else batch[:-1])

    def all_there_are(self) -> list[Any]:
        """Return all queued lines. Parks: until there is at least one."""
        batch = [self.lines.get()]
        while batch[-1] is not None and len(batch) < QUEUE_LINES:
            try:
                batch.append(self.lines.get_nowait())
            except self.kit.queue.Empty:
                break
        return batch

    def deliver(self, batch: list[tuple[bytes, Callable[[], object]]]) -> None:
        """Write the lines of a batch, and then acknowledge them."""
        try:
            if batch and self.fault is None:
                self.write(b"".join([line for line, _ in batch]))
        except OSError as error:
            self.fault = error
        for _, acknowledge in batch:
            acknowledge()

    def close(self) -> None:
        """Write the last lines. Raises: the owner's error."""
        if self.owner.is_alive():  # false for a dhaga after a Ctrl-C; its queue may be full
            self.lines.put(None)
        self.owner.join()
        if self.fault is not None:
            raise self.fault


class AcknowledgedWriter(QueuedWriter):
    """A QueuedWriter whose callers wait until their line has been written."""

    def say(self) -> Write:
        """Return what a caller calls with its lines."""
        written = self.kit.threading.Event()

        def until_written(line: bytes) -> None:
            written.clear()
            self.lines.put((line, written.set))
            written.wait()

        return until_written


SHARING: dict[str, Any] = {"lock": LockedWriter, "queue": QueuedWriter, "queue, acknowledged": AcknowledgedWriter}
