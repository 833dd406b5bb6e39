"""``-k dhaga`` and ``-P dhaga``: in a patched program the engines know the names."""

from __future__ import annotations

import pytest

from tests.kit.scripts import prints

pytest.importorskip("celery")
pytest.importorskip("gunicorn")


@pytest.mark.parametrize("before", [True, False])
def test_both_engines_know_the_name_while_the_program_is_patched(before: bool) -> None:
    imports = "from celery import concurrency\n    import gunicorn.util"
    assert prints(f"""
    import dhaga.monkey
    {imports if before else ""}
    dhaga.monkey.patch()
    {imports}
    print(concurrency.get_implementation("dhaga").__module__, "dhaga" in concurrency.get_available_pool_names())
    print(gunicorn.util.load_class("dhaga").__module__)
    dhaga.monkey.unpatch()
    print("dhaga" in concurrency.ALIASES, "dhaga" in gunicorn.workers.SUPPORTED_WORKERS)
    """) == ["dhaga.integrations.celery True", "dhaga.integrations.gunicorn", "False False"]
