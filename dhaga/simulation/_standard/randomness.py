"""Randomness from the seed: ``random``, ``os.urandom``, and all functions of the standard library that use these.

Random numbers that C code draws by itself do not depend on the seed, for example in a TLS handshake.
"""

from __future__ import annotations

import itertools
import os
import random
import ssl
import sys
import tempfile
import threading
import uuid
from typing import Any

from ..._kernel import outside
from ...monkey._rebind import Replacement
from .._base.here import here
from .._base.undoing import Undoing

WORD = 1 << 64


class Draws:
    """The generators of one run: one for the schedule, and one for the program.

    So the program gets the same sequence of random numbers in each schedule of a seed.
    """

    def __init__(self, seed: int) -> None:
        self.schedule: random.Random = random.Random(f"schedule {seed}")
        self.program: random.Random = random.Random(f"program {seed}")


def draws_of_caller() -> random.Random | None:
    """Return the program's generator in the caller's simulation; None outside the simulation's OS thread."""
    simulation = here()
    return None if simulation is None else simulation.draws.program


standard_urandom = os.urandom
standard_seed = random.Random.seed
standard_getrandom: Any = getattr(os, "getrandom", None)
standard_rand_bytes = ssl.RAND_bytes


def urandom(size: int, /) -> bytes:
    """Return bytes drawn from the seed. Source: ``os.urandom``."""
    found = draws_of_caller()
    return standard_urandom(size) if found is None else found.randbytes(size)


def getrandom(size: int, flags: int = 0) -> bytes:
    """Return bytes drawn from the seed. Source: ``os.getrandom``."""
    found = draws_of_caller()
    return standard_getrandom(size, flags) if found is None else found.randbytes(size)


def rand_bytes(num: int, /) -> bytes:
    """Return bytes drawn from the seed. Source: ``ssl.RAND_bytes``."""
    found = draws_of_caller()
    return standard_rand_bytes(num) if found is None else found.randbytes(num)


def seed_generator(self: random.Random, a: Any = None, version: int = 2) -> None:
    """Seed a generator, by default with a draw from the simulation's seed. Source: ``random.Random.seed``."""
    found = draws_of_caller() if a is None else None
    standard_seed(self, a if found is None else found.randrange(WORD), version)


def seed_shared(a: Any = None, version: int = 2) -> None:
    """Seed the generator of the module ``random``. Source: ``random.seed``, a bound method of that generator."""
    seed_generator(random._inst, a, version)


REPLACED = [Replacement(random, "seed", seed_shared, random.seed)] + [
    Replacement(module, ours.__name__ if module is os else "RAND_bytes", ours, real)
    for module, ours, real in (
        (os, urandom, standard_urandom),
        (os, getrandom, standard_getrandom),
        (ssl, rand_bytes, standard_rand_bytes),
    )
    if real is not None
]
"""The replaced functions of three modules. The method ``random.Random.seed`` is replaced in its class."""


def install_draws(draws: Draws, undoing: Undoing) -> None:
    """Set random states and counters for a run. The calls of ``undoing`` restore all of them except NumPy's state."""
    undoing.callback(random.setstate, random.getstate())
    undoing.set(threading, "_counter", itertools.count(1).__next__)
    undoing.set(outside, "next_scope", itertools.count(1).__next__)
    undoing.set(tempfile, "_name_sequence", None)
    # Without libuuid, the time, node and sequence number of a UUID come from Python's functions.
    undoing.set(uuid, "_generate_time_safe", None)
    for last in ("_last_timestamp", "_last_timestamp_v6", "_last_timestamp_v7"):
        if hasattr(uuid, last):
            undoing.set(uuid, last, None)
    if hasattr(uuid, "_last_counter_v7"):
        undoing.set(uuid, "_last_counter_v7", 0)
    undoing.set(uuid, "_node", draws.program.getrandbits(48) | 1 << 40)
    random.seed(draws.program.randrange(WORD))
    # This number is drawn even without NumPy, because the program's draws must not depend on an import of NumPy.
    seed = draws.program.randrange(1 << 32)
    if (numpy := sys.modules.get("numpy")) is not None:
        numpy.random.seed(seed)
