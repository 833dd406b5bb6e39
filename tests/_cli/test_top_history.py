"""The history line of top: what a minute looks like, at any width."""

from __future__ import annotations

from dhaga._cli.top_history import HistoryLines


def lines_of(*samples: tuple[float, int, int, float], preempted: float = 0.0) -> HistoryLines:
    lines = HistoryLines()
    lines.extend(((*sample, preempted) for sample in samples), [["/srv/shop/report.py:12 in total", 40]])
    return lines


def drawn(lines: HistoryLines, width: int) -> str:
    """Return the only line."""
    (line,) = lines.draw(width)
    return line.plain


def test_a_minute_is_three_curves_with_their_last_values() -> None:
    lines = lines_of(*((1000.0 + n, n, 60, 0.05 if n == 30 else 0.0) for n in range(60)))
    shown = drawn(lines, 100)
    assert shown.split() == ["runnable", "▂▂▂▃▃▄▄▄▅▅▅▆▆▆▇▇█", "59", "parked", "█" * 17, "60"] + [
        *("lag", "▁▁▁▁▁▁▁▁▅▁▁▁▁▁▁▁▁", "0", "ms;", "max", "50", "ms"),
    ]
    assert lines.last == 1059.0


def test_preemptions_are_a_line_that_names_where_most_are() -> None:
    lines = lines_of((1000.0, 8, 60, 0.0), (1001.0, 8, 60, 0.0), preempted=16.4).draw(80)
    assert [line.plain.split()[0] for line in lines] == ["runnable", "preempted"]
    assert lines[1].plain.split() == [
        "preempted",
        "█",
        "16/s;",
        "max",
        "16/s",
        "most",
        "at",
        "report.py:12",
        "in",
        "total",
    ]


def test_what_is_older_than_a_minute_is_dropped_and_what_is_not_known_is_blank() -> None:
    lines = lines_of((1000.0, 8, 0, 9.0), (1061.0, 8, 0, 0.0))
    assert len(lines.samples) == 1
    assert drawn(lines, 80).startswith("runnable           █ 8  parked ")
    assert "max 0 ms" in drawn(lines, 80)


def test_a_line_fits_any_width_and_is_there_before_the_first_sample() -> None:
    assert drawn(lines_of(), 80).split() == ["runnable", "…", "parked", "…", "lag", "…"]
    lines = lines_of((1000.0, 12_345, 100_000, 3.0), (1001.0, 1, 100_000, 0.001))
    for width in (60, 80, 120, 300):
        assert len(drawn(lines, width).rstrip()) <= width
    assert "█" not in drawn(lines, 30)
