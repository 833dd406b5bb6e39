"""The history line of top: what a minute looks like, at any width."""

from __future__ import annotations

from dhaga._cli.top_history import HistoryLine


def line_of(*samples: tuple[float, int, int, float]) -> HistoryLine:
    line = HistoryLine()
    line.extend(samples)
    return line


def test_a_minute_is_three_curves_with_their_last_values() -> None:
    line = line_of(*((1000.0 + n, n, 60, 0.05 if n == 30 else 0.0) for n in range(60)))
    shown = line.draw(100).plain
    assert shown.split() == ["runnable", "▂▂▂▃▃▄▄▄▅▅▅▆▆▆▇▇█", "59", "parked", "█" * 17, "60"] + [
        *("lag", "▁▁▁▁▁▁▁▁▅▁▁▁▁▁▁▁▁", "0", "ms;", "max", "50", "ms"),
    ]
    assert line.last == 1059.0


def test_what_is_older_than_a_minute_is_dropped_and_what_is_not_known_is_blank() -> None:
    line = line_of((1000.0, 8, 0, 9.0), (1061.0, 8, 0, 0.0))
    assert len(line.samples) == 1
    assert line.draw(80).plain.startswith("runnable           █ 8  parked ")
    assert "max 0 ms" in line.draw(80).plain


def test_a_line_fits_any_width_and_is_there_before_the_first_sample() -> None:
    assert line_of().draw(80).plain.split() == ["runnable", "…", "parked", "…", "lag", "…"]
    line = line_of((1000.0, 12_345, 100_000, 3.0), (1001.0, 1, 100_000, 0.001))
    for width in (60, 80, 120, 300):
        assert len(line.draw(width).plain.rstrip()) <= width
    assert "█" not in line.draw(30).plain
