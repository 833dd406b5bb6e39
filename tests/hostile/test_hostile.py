"""Each attack for a moment: an ordinary client is answered all the same, and the server writes no traceback."""

from __future__ import annotations

import pytest

from tests.hostile.measure import measure
from tests.hostile.targets import TARGETS

CASES = [(name, attack) for name, kind in TARGETS.items() for attack in kind.attacks]
ON_EVERY_CHANGE = {
    *(("serve", attack) for attack in ("pipelining", "blank_lines", "heads_by_bytes", "malformed_requests")),
    *(("gunicorn", "pipelining"), ("tcp", "echo_flood"), ("chat", "websocket_fragments")),
}
"""What found defects; ``make hostile`` and the slow tests have the rest."""


@pytest.mark.once
@pytest.mark.parametrize(
    ("name", "attack"),
    [pytest.param(*case, marks=[] if case in ON_EVERY_CHANGE else pytest.mark.slow) for case in CASES],
)
def test_an_ordinary_client_is_answered_beside(name: str, attack: str) -> None:
    if name == "gunicorn":
        pytest.importorskip("gunicorn")
    measured = measure(TARGETS[name](), attack, 1.0, quiet_seconds=0.3)
    print(measured)
    assert not measured.fails, measured
