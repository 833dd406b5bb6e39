"""The names of runs, and which of them are not at their end: the next run over the same sources goes on with it."""

from __future__ import annotations

import json
import os
import secrets
import time
from dataclasses import dataclass
from pathlib import Path

from examples.backup.rpc import Address

from .fleet import Fleet


@dataclass(frozen=True)
class Run:
    """A run, as a file remembers it until it is finished."""

    name: str
    path: Path
    goes_on: bool

    @classmethod
    def of(cls, folder: Path, server: Address, fleet: Fleet) -> Run:
        """Give the unfinished run over these sources, or begin one."""
        path = folder / f"run-{fleet.digest()[:16]}-{server.host.replace('/', '_')}-{server.port}.json"
        try:
            return cls(json.loads(path.read_text())["run"], path, True)
        except (OSError, ValueError, KeyError, TypeError):  # none, or torn by a crash
            run = cls(f"{time.strftime('%Y%m%d-%H%M%S')}-{secrets.token_hex(3)}", path, False)
            draft = path.with_suffix(".draft")
            draft.write_text(json.dumps({"run": run.name, "sources": len(fleet.sources)}))
            os.replace(draft, path)
            return run

    def finish(self) -> None:
        """Forget it: the next run is a new one."""
        self.path.unlink(missing_ok=True)
