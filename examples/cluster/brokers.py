"""The brokers that the cluster can stand on, and what Celery has to be told of each.

`filesystem://` and `memory://` need nothing beside Celery. The first lives in a directory, which the processes of one
machine share; the second in one process.
"""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from examples.backup.wire import BackupError

QUEUE: Final = "backups"
PACKAGES: Final = {"filesystem": "", "memory": "", "redis": "redis", "rediss": "redis", "amqp": "", "amqps": ""}
KNOWN: Final = "filesystem://, memory://, redis://HOST or amqp://USER:PASSWORD@HOST"
REACH_SECONDS: Final = 5.0
VISIBLE_AGAIN_SECONDS: Final = 6 * 3600  # at Redis: above the longest backup of one source, else it is run twice


def default_folder() -> Path:
    """Give the directory that commands of one user share when they are not told of another."""
    return Path(tempfile.gettempdir()) / f"dhaga-cluster-{os.getuid()}"


@dataclass(frozen=True)
class Broker:
    """Where tasks and results travel; `folder` is for what is kept on disk."""

    url: str
    folder: Path
    queue: str = QUEUE

    def __post_init__(self) -> None:
        if self.scheme not in PACKAGES or "://" not in self.url:
            raise BackupError(f"unknown broker {self.url!r}: write {KNOWN}")
        package = PACKAGES[self.scheme]
        if package and find_spec(package) is None:
            raise BackupError(f"the broker {self.url} needs the package {package}: pip install {package}")

    @property
    def scheme(self) -> str:
        """Give the kind of broker."""
        return urlsplit(self.url).scheme

    @property
    def in_one_process(self) -> bool:
        """Return whether only this process can reach it."""
        return self.scheme == "memory"

    @property
    def shown(self) -> str:
        """Give the address without a password."""
        parts = urlsplit(self.url)
        return self.url.replace(f":{parts.password}@", ":***@") if parts.password else self.url

    def settings(self) -> dict[str, Any]:
        """Give Celery's settings for it."""
        return {
            "broker_url": self.url if urlsplit(self.url).netloc else f"{self.scheme}://localhost//",  # kombu warns else
            "broker_connection_timeout": REACH_SECONDS,
            "task_default_queue": self.queue,
            # Without a server nothing clears away the queues by which a worker that was killed took remote commands.
            "worker_enable_remote_control": self.scheme not in ("filesystem", "memory"),
            **_SETTINGS[self.scheme](self),
        }

    def prepare(self) -> None:
        """Make the directories.

        Raises: BackupError if that cannot be, or if the directory is another user's.
        """
        try:
            for folder in (self.folder, *(self.folder / name for name in ("drafts", "queue", "control", "results"))):
                folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise BackupError(f"cannot use {self.folder}: {error.strerror}") from None
        if self.folder.stat().st_uid != os.getuid():
            raise BackupError(f"{self.folder} belongs to another user: choose another --folder")


def _filesystem(broker: Broker) -> dict[str, Any]:
    queue = str(broker.folder / "queue")
    return {
        "broker_transport": "examples.cluster.filesystem_broker:Transport",
        "broker_transport_options": {
            "data_folder_in": queue,
            "data_folder_out": queue,
            "control_folder": str(broker.folder / "control"),
            "drafts_folder": str(broker.folder / "drafts"),
            "polling_interval": 0.1,
        },
        "result_backend": f"file://{broker.folder / 'results'}",
    }


def _memory(broker: Broker) -> dict[str, Any]:
    return {"broker_transport_options": {"polling_interval": 0.05}, "result_backend": "cache+memory://"}


def _redis(broker: Broker) -> dict[str, Any]:
    return {
        "broker_transport_options": {
            "visibility_timeout": VISIBLE_AGAIN_SECONDS,
            "global_keyprefix": f"{broker.queue}:",  # what was not acknowledged is one list for all queues else
        },
        "result_backend": broker.url,
    }


def _amqp(broker: Broker) -> dict[str, Any]:
    return {"result_backend": "rpc://"}


_SETTINGS: Final = {
    "filesystem": _filesystem,
    "memory": _memory,
    "redis": _redis,
    "rediss": _redis,
    "amqp": _amqp,
    "amqps": _amqp,
}
