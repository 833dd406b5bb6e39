"""Sphinx's configuration: `make docs` builds the site from this folder, without a network, warnings as errors."""

import sys
import tomllib
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

import dhaga

HERE = Path(__file__).parent
project = "Dhaga"
author = "The Dhaga authors"
copyright = author
release = version = dhaga.__version__

extensions = [
    *("myst_parser", "sphinx.ext.autodoc"),
    *("messages_index", "api_pages", "docstring_form", "page_head", "report_page", "status_tables"),
]
exclude_patterns = ["_build", "_ext", "_pictures"]

# ---- links: each one within the site must lead to a place, headings included

nitpicky = True
nitpick_ignore_regex = [
    ("py:.*", r"(?!dhaga\b).*"),  # the standard library's
    ("py:.*", r"dhaga\..*\b_.*|dhaga\.\w+\.([A-Z]\d?|AllTasksDone)"),  # private ones, and type variables
]
myst_heading_anchors = 3
myst_enable_extensions = ["deflist", "attrs_inline", "attrs_block"]

# ---- the reference

autodoc_typehints = "signature"
autodoc_inherit_docstrings = False
autodoc_member_order = "bysource"
autodoc_default_options = {"show-inheritance": True}
python_maximum_signature_line_length = 100
python_use_unqualified_type_names = True

# ---- looks

html_theme = "furo"
html_title = f"Dhaga {release}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_js_files = ["site.js"]
html_search_scorer = str(HERE / "_static" / "search_scorer.js")
html_logo = "_static/mark.svg"
html_favicon = "_static/mark.svg"
html_baseurl = tomllib.loads((HERE.parent / "pyproject.toml").read_text())["project"]["urls"]["Documentation"] + "/"
html_theme_options = {
    "light_css_variables": {
        "color-brand-primary": "#b83b08",
        "color-brand-content": "#b83b08",
        "color-brand-visited": "#8a3a5c",
        "color-sidebar-link-text--top-level": "var(--color-foreground-primary)",
        "color-thread": "#d9480f",
        "color-works": "#1f6f33",
        "color-halfway": "#7a5700",
        "color-fails": "#b3261e",
        # of charts, as in the report
        "chart": "#fff",
        "grid": "#b0b0b0",
        "dhaga": "#d9480f",
        "threads": "#495057",
        "gevent": "#2b8a3e",
        "asyncio": "#1971c2",
        "uvloop": "#6741d9",
    },
    "dark_css_variables": {
        "color-brand-primary": "#ff9d63",
        "color-brand-content": "#ff9d63",
        "color-brand-visited": "#e0a3c0",
        "color-sidebar-link-text--top-level": "var(--color-foreground-primary)",
        "color-thread": "#f2692e",
        "color-works": "#7cc58b",
        "color-halfway": "#e0b45c",
        "color-fails": "#ff8f85",
        "chart": "#1a1c1e",
        "grid": "#8a8279",
        "dhaga": "#f2692e",
        "dhaga-2": "#ff9d63",
        "dhaga-1": "#ffd3a8",
        "threads": "#9a938b",
        "threads-2": "#bbb5ae",
        "threads-1": "#dfdbd6",
        "gevent": "#69c07c",
        "asyncio": "#6cb4ee",
        "uvloop": "#b39cff",
    },
}
html_copy_source = False
html_show_sphinx = False
pygments_style = "default"
pygments_dark_style = "monokai"
