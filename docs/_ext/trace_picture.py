"""Draws docs/_pictures/trace.html: a real trace of a small program, as `debug.trace` records it.

Run it after a change to the trace: `python docs/_ext/trace_picture.py`. No build does, as its times differ each time.
"""

import json
import tempfile
from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import Any

import dhaga
from dhaga import debug, threading

PICTURE = Path(__file__).parent.parent / "_pictures" / "trace.html"
WIDTH, LEFT, TRACK, BAR = 760, 84, 42, 16
SHORTEST = 60
"""Pixels of a wait that has its reason written on it."""

lock = threading.Lock()


def sell() -> None:
    with lock:
        dhaga.sleep(0.004)  # a payment
        sum(range(60_000))


def report() -> None:
    for _ in range(3):
        sum(range(120_000))
        dhaga.sleep(0.003)


def program() -> None:
    with dhaga.Scope() as scope:
        for number in (1, 2, 3):
            scope.spawn(sell, name=f"order {number}")
        scope.spawn(report, name="report")


def recorded() -> list[dict[str, Any]]:
    """Run the program once to load what it needs, and once under a trace; return the events."""
    program()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "trace.json")
        with debug.trace(path):
            program()
        return json.loads(path.read_text())["traceEvents"]  # type: ignore[no-any-return]


class Drawing:
    """The events as bars, one track a dhaga; the hub has none."""

    def __init__(self, events: list[dict[str, Any]]) -> None:
        names = {each["tid"]: each["args"]["name"] for each in events if each["name"] == "thread_name"}
        self.tracks = {tid: name for tid, name in names.items() if not name.startswith(("hub", "main"))}
        self.places = {tid: 24 + TRACK * number for number, tid in enumerate(self.tracks)}
        self.events = [each for each in events if each["tid"] in self.tracks and each["ph"] != "M"]
        self.began = min(each["ts"] for each in self.events)
        self.ended = max(each["ts"] + each.get("dur", 0) for each in self.events)
        self.height = 24 + TRACK * len(self.tracks) + 24

    def x(self, at: float) -> float:
        return LEFT + (WIDTH - LEFT - 10) * (at - self.began) / (self.ended - self.began)

    def bars(self) -> Iterator[str]:
        for each in self.events:
            if each["ph"] == "X":
                x, y = self.x(each["ts"]), self.places[each["tid"]]
                width = max(1.5, self.x(each["ts"] + each["dur"]) - x)
                if each["name"] == "running":
                    yield f'<rect class="run" x="{x:.1f}" y="{y}" width="{width:.1f}" height="{BAR}"/>'
                    continue
                yield f'<path class="wait" d="M{x:.1f} {y + BAR / 2}h{width:.1f}"/>'
                if width > SHORTEST:
                    name = escape(each["name"])
                    yield f'<text x="{x + width / 2:.1f}" y="{y + 3}" text-anchor="middle">{name}</text>'

    def wakes(self) -> Iterator[str]:
        """Give a line from each dhaga to the one that it woke."""
        wakers = {each["id"]: each for each in self.events if each["ph"] == "s"}
        for each in self.events:
            if each["ph"] == "f" and (waker := wakers.get(each["id"])):
                x, y = self.x(waker["ts"]), self.places[waker["tid"]] + BAR
                yield f'<path class="wake" d="M{x:.1f} {y}L{self.x(each["ts"]):.1f} {self.places[each["tid"]]}"/>'

    def scale(self) -> Iterator[str]:
        for milliseconds in range(0, int((self.ended - self.began) / 1000) + 1, 2):
            x = self.x(self.began + 1000 * milliseconds)
            yield f'<text class="scale" x="{x:.1f}" y="{self.height - 4}" text-anchor="middle">{milliseconds} ms</text>'

    def names(self) -> Iterator[str]:
        for tid, name in self.tracks.items():
            yield f'<text class="name" x="0" y="{self.places[tid] + BAR - 3}">{escape(name)}</text>'

    def svg(self) -> str:
        label = "A trace: three orders wait for one lock in turn, while a report runs and sleeps beside them"
        return "\n".join(
            [
                '<figure class="picture trace">',
                f'<svg viewBox="0 0 {WIDTH} {self.height}" width="{WIDTH}" height="{self.height}" role="img" '
                f'aria-label="{label}">',
                *self.names(),
                *self.scale(),
                *self.bars(),
                *self.wakes(),
                "</svg>",
                "<figcaption>Three orders and a report. Thick: a dhaga runs; thin: it waits, with the reason.",
                "A blue line leads from each dhaga to the one that it woke.</figcaption></figure>\n",
            ]
        )


if __name__ == "__main__":
    PICTURE.write_text(Drawing(recorded()).svg())
