"""Sphinx: `make docs`, or sphinx-build -n -W docs docs/_build."""

from __future__ import annotations

project = "Duebox"
author = "The Duebox authors"
copyright = "The Duebox authors"
extensions = ["myst_parser"]
myst_enable_extensions = ["deflist"]
myst_heading_anchors = 4
exclude_patterns = ["_build"]
html_theme = "furo"
html_title = "Duebox"
