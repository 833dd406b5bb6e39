"""A write-ahead log with group commit, for dhagas and threads: see README.md."""

from .log import WriteAheadLog
from .records import Broken, Corrupt, InUse, WalError

__all__ = ["Broken", "Corrupt", "InUse", "WalError", "WriteAheadLog"]
