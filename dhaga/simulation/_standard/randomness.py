"""Randomness from the seed: ``random``, ``os.urandom`` and all that the standard library draws from them.

What C code draws by itself stays random: a TLS handshake, for example.
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
    """The draws of one run. The schedule has draws of its own, so that a change of it does not change the program's."""

    def __init__(self, seed: int) -> None:
        self.schedule: random.Random = random.Random(f"schedule {seed}")
        self.program: random.Random = random.Random(f"program {seed}")


def draws_of_caller() -> random.Random | None:
    """Return the draws for the program, in the OS thread of its simulation; None elsewhere."""
    simulation = here()
    return None if simulation is None else simulation.draws.program


standard_urandom = os.urandom
standard_seed = random.Random.seed
standard_getrandom: Any = getattr(os, "getrandom", None)
standard_rand_bytes = ssl.RAND_bytes


def urandom(size: int, /) -> bytes:
    """Return bytes of the seed. Source: ``os.urandom``."""
    found = draws_of_caller()
    return standard_urandom(size) if found is None else found.randbytes(size)


def getrandom(size: int, flags: int = 0) -> bytes:
    """Return bytes of the seed. Source: ``os.getrandom``."""
    found = draws_of_caller()
    return standard_getrandom(size, flags) if found is None else found.randbytes(size)


def rand_bytes(num: int, /) -> bytes:
    """Return bytes of the seed. Source: ``ssl.RAND_bytes``."""
    found = draws_of_caller()
    return standard_rand_bytes(num) if found is None else found.randbytes(num)


def seed_generator(self: random.Random, a: Any = None, version: int = 2) -> None:
    """Seed a generator; without a value, by the seed of the simulation. Source: ``random.Random.seed``."""
    found = draws_of_caller() if a is None else None
    standard_seed(self, a if found is None else found.randrange(WORD), version)


REPLACED = [
    Replacement(module, ours.__name__ if module is os else "RAND_bytes", ours, real)
    for module, ours, real in (
        (os, urandom, standard_urandom),
        (os, getrandom, standard_getrandom),
        (ssl, rand_bytes, standard_rand_bytes),
    )
    if real is not None
]
"""The functions of ``os`` and ``ssl``. ``random.Random.seed`` is replaced in the class."""


def install_draws(draws: Draws, undoing: Undoing) -> None:
    """Set the states of the standard library that are drawn, until the calls of ``undoing`` are made."""
    undoing.callback(random.setstate, random.getstate())
    undoing.set(threading, "_counter", itertools.count(1).__next__)
    undoing.set(outside, "next_scope", itertools.count(1).__next__)
    undoing.set(tempfile, "_name_sequence", None)
    # Without libuuid, time, node and sequence come from Python's functions.
    undoing.set(uuid, "_generate_time_safe", None)
    undoing.set(uuid, "_last_timestamp", None)
    undoing.set(uuid, "_node", draws.program.getrandbits(48) | 1 << 40)
    random.seed(draws.program.randrange(WORD))
    # Drawn in any case: whether another package has imported NumPy must not change the program's draws.
    seed = draws.program.randrange(1 << 32)
    if (numpy := sys.modules.get("numpy")) is not None:
        numpy.random.seed(seed)
