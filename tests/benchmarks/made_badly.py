"""An experiment whose outcome is not whole."""

from __future__ import annotations

from benchmarks.tables.outcome import Claim, Outcome, Table, Tell
from tests.benchmarks import made_up
from tests.benchmarks.made_up import draw as draw


def measure(quick: bool, tell: Tell) -> Outcome:
    outcome = made_up.outcome("made_badly")
    outcome.claims.append(Claim("never measured", 1.0, True, []))
    outcome.claims.append(Claim("nothing by nothing", 1.0, True, [float("nan")]))
    outcome.tables.append(Table("Askew", ("one", "two"), [("three",)]))
    return outcome
