"""``eventlet.backdoor`` refuses."""

from __future__ import annotations

import pytest

from dhaga.compat.eventlet.backdoor import backdoor, backdoor_server


def test_it_names_the_way_to_look_into_a_program() -> None:
    for call in (backdoor, backdoor_server):
        with pytest.raises(NotImplementedError, match="dhaga dump"):
            call(None)
