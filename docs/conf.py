"""Sphinx's configuration: `make docs` builds the site from this folder, without a network, warnings as errors."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

import dhaga

project = "Dhaga"
author = "The Dhaga authors"
copyright = author
release = version = dhaga.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "messages_index", "api_pages", "docstring_form"]
exclude_patterns = ["_build", "_ext"]

# ---- links: each one within the site must lead to a place, headings included

nitpicky = True
nitpick_ignore_regex = [
    ("py:.*", r"(?!dhaga\b).*"),  # the standard library's
    ("py:.*", r"dhaga\..*\b_.*|dhaga\.\w+\.([A-Z]\d?|AllTasksDone)"),  # private ones, and type variables
]
myst_heading_anchors = 3
myst_enable_extensions = ["deflist", "attrs_inline"]

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
html_copy_source = False
html_show_sphinx = False
pygments_style = "default"
pygments_dark_style = "monokai"
