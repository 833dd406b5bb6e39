"""Slots that were deleted or replaced are an error at most: the fast paths read none that they did not check."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import Counter
from types import ModuleType

import pytest

from dhaga._kernel.fast import accelerator

pytest.importorskip("trustme")
KILLED = re.compile("signal SIG(ALRM|PROF)")
"""A child that waits, or looks again and again, for what its broken scheduler never does."""


SANITIZER = {"ASAN_OPTIONS": f"{os.environ.get('ASAN_OPTIONS', '')}:symbolize=0:exitcode=99"}
"""AddressSanitizer takes seconds to name the lines of a crash: the child would count as one that hangs. Its status
would be 1 by default, like the status of a program whose loop fails.
"""


@pytest.mark.skipif(not isinstance(accelerator.fast_paths, ModuleType), reason=f"pure: {accelerator.fast_paths!s:.5}…")
@pytest.mark.process
@pytest.mark.long("500 forked children, one of six hangs for 4 s")
def test_no_slot_that_is_deleted_or_of_another_type_is_a_crash() -> None:
    command = [sys.executable, "-m", "tests._kernel.altered_slots"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=160, check=True, env=os.environ | SANITIZER)
    cases = done.stdout.splitlines()
    crashed = [line for line in cases if ("signal" in line and not KILLED.search(line)) or "SystemError" in line]
    assert crashed == []
    assert len(cases) > 500
    went_on = Counter(line.split()[0] for line in cases if not KILLED.search(line))
    assert len(went_on) >= 15 and sum(went_on.values()) > len(cases) / 2
