"""What is installed when packages are imported into a patched program; each in a process of its own."""

from __future__ import annotations

import pytest

from tests.kit.scripts import prints

pytest.importorskip("psycopg2")
pytest.importorskip("psycopg")


def test_psycopg2_parks_wherever_it_is_imported() -> None:
    for before in ("import psycopg2", "import psycopg2.extensions", "pass"):
        lines = prints(f"""
            {before}
            from dhaga import monkey
            monkey.patch()
            import psycopg2.extensions as extensions
            print(extensions.get_wait_callback().__module__)
            monkey.unpatch()
            print(extensions.get_wait_callback())
            monkey.patch()
            print(extensions.get_wait_callback().__module__)
        """)
        assert lines == ["dhaga.integrations.psycopg2", "None", "dhaga.integrations.psycopg2"]


def test_psycopg_waits_by_select() -> None:
    lines = prints("""
        from dhaga import monkey
        monkey.patch()
        from psycopg import waiting
        print(waiting.wait.__name__)
        monkey.unpatch()
        print(waiting.wait.__name__)
    """)
    assert lines[0] == "wait_poll"
    assert lines[1] != "wait_poll"


def test_a_package_keeps_its_own_loader_and_nothing_else_is_imported() -> None:
    lines = prints("""
        import importlib.util, inspect, sys
        from dhaga import monkey
        monkey.patch()
        print(sorted({"psycopg", "psycopg2"} & sys.modules.keys()))
        print(importlib.util.find_spec("psycopg2").origin.endswith("__init__.py"))
        import psycopg2, importlib.resources
        print(type(psycopg2.__loader__).__name__, psycopg2.__spec__.loader is psycopg2.__loader__)
        print(bool(inspect.getsource(psycopg2)), importlib.resources.files("psycopg2").joinpath("extras.py").is_file())
        importlib.reload(psycopg2)
    """)
    assert lines == ["[]", "True", "SourceFileLoader True", "True True"]


def test_a_package_that_cannot_be_imported_is_told_as_ever(tmp_path: object) -> None:
    lines = prints(f"""
        import pathlib, sys
        sys.path.insert(0, {str(tmp_path)!r})
        pathlib.Path({str(tmp_path)!r}, "psycopg2.py").write_text("raise ImportError('not today')")
        from dhaga import monkey
        monkey.patch()
        for _ in range(2):
            try:
                import psycopg2
            except ImportError as error:
                print(error, "psycopg2" in sys.modules)
    """)
    assert lines == ["not today False"] * 2


def test_an_old_finder_and_a_copy_of_the_loader_do_no_harm() -> None:
    assert prints("""
        import copy, importlib.util, sys
        from dhaga import monkey
        monkey.patch()
        class OldFinder:  # without find_spec(): 3.12 and later skip it, 3.11 asks find_module()
            def find_module(self, name, path=None):
                return None
        sys.meta_path.insert(0, OldFinder())
        print(type(copy.copy(importlib.util.find_spec("sqlite3").loader)).__name__)
        import sqlite3
        print(sqlite3.connect.__module__)
    """) == ["PostImportLoader", "dhaga.integrations.sqlite3"]
