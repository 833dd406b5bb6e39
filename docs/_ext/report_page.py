"""Copies the benchmarks' report into the site: one page with all claims and charts.

Its links to the site become relative, so that they also work in a copy on a disk. An sdist leaves it out.
"""

from pathlib import Path
from typing import Any

from sphinx.application import Sphinx


def copy(app: Sphinx, error: Exception | None) -> None:
    """Write report.html beside the first page."""
    report = Path(app.srcdir).parent / "benchmarks/results/report.html"
    if error is None and app.builder.format == "html" and report.exists():
        text = report.read_text().replace(f'href="{app.config.html_baseurl}', 'href="')
        (Path(app.outdir) / report.name).write_text(text)


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("build-finished", copy)
    return {"parallel_read_safe": True}
