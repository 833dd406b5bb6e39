"""Getters of psycopg's pools that a deadline or a cancel interrupts."""

from __future__ import annotations

import pytest

from tests.kit.scripts import prints

pytest.importorskip("psycopg_pool")


def test_an_interrupted_getter_takes_no_connection() -> None:
    assert prints("""
        from dhaga import monkey
        monkey.patch()
        import dhaga
        from psycopg_pool.pool import WaitingClient

        getter = WaitingClient()
        try:
            with dhaga.Timeout(0.01):
                getter.wait(60)
        except TimeoutError:
            print(getter.set("connection"))

        getter = WaitingClient()
        caller = dhaga.spawn(getter.wait, 60)
        while not caller.parked:
            dhaga.sleep(0.01)
        caller.cancel()
        caller.join()
        print(getter.set("connection"))

        getter = WaitingClient()
        try:
            getter.wait(0.01)
        except Exception as error:
            print(type(error).__name__, getter.set("connection"))
        monkey.unpatch()
        print(WaitingClient.wait.__globals__["__name__"])
    """) == ["False", "False", "PoolTimeout False", "psycopg_pool.pool"]


EARLIER_WAIT = """
        from dhaga.integrations import _psycopg_pool

        def standard_wait(self, timeout):
            with self._cond:
                try:
                    self._cond.wait(timeout)
                except BaseException as error:
                    self.error = error
            if self.conn:
                return self.conn
            raise self.error

        _psycopg_pool.standard_wait = standard_wait
"""
"""The wait of psycopg_pool 3.1.9 and 3.2.0: after a hand-over it raises no error."""


@pytest.mark.parametrize("earlier", ["", EARLIER_WAIT], ids=["newest", "3.2.0"])
def test_a_getter_that_is_cancelled_after_the_hand_over_has_its_connection(earlier: str) -> None:
    assert prints(f"""
        from dhaga import monkey
        monkey.patch()
        import dhaga
        from psycopg_pool.pool import WaitingClient
        {earlier}

        def get(getter):
            print(getter.wait(60))
            try:
                dhaga.sleep(0.01)
            except dhaga.Cancelled:
                print("cancelled")
                raise

        def get_in_scope(getter, scopes):
            with dhaga.Scope() as scope:
                scopes.append(scope)
                get(getter)
            dhaga.sleep(0.01)  # the scope's cancel has ended
            print("continued")

        def parked(function, *args):
            caller = dhaga.spawn(function, *args)
            while not caller.parked:
                dhaga.sleep(0.01)
            return caller

        getter = WaitingClient()
        caller = parked(get, getter)
        with dhaga.no_preempt():  # the caller does not run between the cancel and the hand-over
            caller.cancel()
            print(getter.set("connection"))
        caller.join()

        getter, scopes = WaitingClient(), []
        caller = parked(get_in_scope, getter, scopes)
        with dhaga.no_preempt():
            scopes[0].cancel()
            print(getter.set("connection"))
        caller.join()
    """) == ["True", "connection", "cancelled"] * 2 + ["continued"]
