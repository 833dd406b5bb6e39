"""Run the tests of a program that was written for threads on dhagas, as ``python -m dhaga`` does."""

from __future__ import annotations

import dhaga.monkey

dhaga.monkey.patch()
