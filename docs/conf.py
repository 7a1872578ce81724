"""Sphinx: `make docs`, or sphinx-build -n -W docs docs/_build."""

from __future__ import annotations

import tomllib
from pathlib import Path

_package = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]

project = "Duebox"
author = "The Duebox authors"
copyright = "The Duebox authors"
version = release = _package["version"]
extensions = ["myst_parser", "sphinx_copybutton"]
myst_enable_extensions = ["deflist"]
myst_heading_anchors = 4
# Which test proves which requirement: for those who work on Duebox.
exclude_patterns = ["_build", "requirements.md"]
html_theme = "furo"
html_static_path = ["_static"]
html_css_files = ["duebox.css"]
html_title = f"Duebox {release}"
html_theme_options = {
    "source_repository": _package["urls"]["Repository"],
    "source_branch": "main",
    "source_directory": "docs/",
}
# What a reader types, without the prompt and without the output.
copybutton_prompt_text = "$ "
copybutton_only_copy_prompt_lines = True
