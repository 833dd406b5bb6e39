"""The filesystem broker, with messages that are whole from the moment they can be seen.

Kombu's own writes a message in the place where workers look for it: one who takes it in between reads half of it,
fails, and the message is gone. Here it is written beside and renamed.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any
from uuid import uuid4

from kombu.transport import filesystem
from kombu.utils.json import dumps


class Channel(filesystem.Channel):
    """Puts messages by renaming them."""

    def _put(self, queue: str, payload: Any, **options: Any) -> None:  # type: ignore[override]
        name = f"{time.monotonic_ns() // 1_000_000}_{uuid4()}.{queue}.msg"
        draft = Path(self.transport_options["drafts_folder"]) / name
        draft.write_text(dumps(payload))  # type: ignore[no-untyped-call]
        os.rename(draft, Path(self.data_folder_out) / name)


class Transport(filesystem.Transport):
    """Kombu's, but for how a message is put."""

    Channel = Channel
