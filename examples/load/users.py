"""A user: what a scenario is given, to make requests with. Each has connections and cookies of its own."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Container, Iterator
from typing import TYPE_CHECKING, Any
from urllib.parse import urljoin, urlsplit

import dhaga

from .error_labels import said

if TYPE_CHECKING:
    from .load import Load


class User:
    """Make requests, and have them measured; the methods are those of `requests.Session`, and so are the answers.

    A path is one of the host that is tested. `name`: under which a request is counted, else its method and path.
    `expect`: the statuses that are no failure, else those below 400.
    """

    def __init__(self, load: Load, number: int) -> None:
        self.load = load
        self.number = number
        self.session: Any = load.new_session()
        self.due: float | None = None
        self.trouble: str | None = None
        self.measured = 0

    def __repr__(self) -> str:
        return f"<User {self.number}>"

    def get(self, url: str = "", **options: Any) -> Any:
        """Fetch a page; without a URL, the one that the test is of."""
        return self.request("GET", url, **options)

    def head(self, url: str = "", **options: Any) -> Any:
        """Fetch the headers of a page."""
        return self.request("HEAD", url, **{"allow_redirects": False, **options})

    def post(self, url: str = "", data: Any = None, json: Any = None, **options: Any) -> Any:
        """Send data."""
        return self.request("POST", url, data=data, json=json, **options)

    def put(self, url: str = "", data: Any = None, **options: Any) -> Any:
        """Send a page."""
        return self.request("PUT", url, data=data, **options)

    def patch(self, url: str = "", data: Any = None, **options: Any) -> Any:
        """Send a change of a page."""
        return self.request("PATCH", url, data=data, **options)

    def delete(self, url: str = "", **options: Any) -> Any:
        """Delete a page."""
        return self.request("DELETE", url, **options)

    def sleep(self, seconds: float) -> None:
        """Wait, as people do between two clicks. Parks: `sleep`."""
        dhaga.sleep(seconds)

    def request(
        self, method: str, url: str = "", *, name: str = "", expect: int | Container[int] = (), **options: Any
    ) -> Any:
        """Make a request. Raises: what requests raises, TimeoutError; the run has failed by then."""
        target, path = resolved(self.load.url, url)
        status, trouble = None, None
        began = self.begin()
        try:
            with dhaga.Timeout(self.load.timeout):
                answer = self.session.request(method, target, **options)
            status = answer.status_code
            if not expected(status, expect):
                trouble = f"HTTP {status}"
            return answer
        except Exception as error:
            trouble = said(error)
            raise
        finally:
            if status or trouble:  # else it was cut off
                self.end(name or f"{method} {path}", began, trouble, status)

    @contextlib.contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Measure several requests as one, or something that is none: `with user.step("check out"): …`."""
        began = self.load.clock() if self.due is None else self.due
        former, self.trouble = self.trouble, None
        try:
            yield
        except Exception as error:
            self.end(name, began, self.trouble or said(error), None, is_step=True)
            raise
        else:
            self.end(name, began, self.trouble, None, is_step=True)
        finally:
            self.due = None
            self.trouble = former or self.trouble

    # ---- measuring

    def begin(self) -> float:
        """Return when a request was due: the first of a run when that was, the others now."""
        due, self.due = self.due, None
        return self.load.clock() if due is None else due

    def end(self, name: str, began: float, trouble: str | None, status: int | None, is_step: bool = False) -> None:
        self.measured += 1
        self.trouble = self.trouble or trouble
        tally = self.load.book.tally(name, is_step)
        tally.note(self.load.clock() - began, trouble is not None, status)


@functools.lru_cache(1024)
def resolved(base: str, url: str) -> tuple[str, str]:
    """Return where a URL leads from another one, and the path of that; to work it out takes 12 µs."""
    target = urljoin(base, url)
    return target, urlsplit(target).path or "/"


def expected(status: int, expect: int | Container[int]) -> bool:
    """Return whether a status is no failure."""
    if not expect:
        return status < 400
    return status == expect if isinstance(expect, int) else status in expect
