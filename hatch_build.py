"""Makes the links of the README absolute for the package index, which shows it without the repository around it.

The base is `Repository` of `[project.urls]` in pyproject.toml, and nowhere else.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

RELATIVE = re.compile(r"\]\((?!https?://|#)(?P<path>[^)\s]+)\)")


class ReadmeHook(MetadataHookInterface):
    def update(self, metadata: dict[str, Any]) -> None:
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        metadata["readme"] = {
            "content-type": "text/markdown",
            "text": absolute(text, metadata["urls"]["Repository"], f"v{metadata['version']}"),
        }


def absolute(text: str, repository: str, tag: str) -> str:
    """The text with links to pages, and to the pictures themselves, of a release."""

    def link(match: re.Match[str]) -> str:
        kind = "raw" if match["path"].endswith((".png", ".svg")) else "blob"
        return f"]({repository}/{kind}/{tag}/{match['path']})"

    return RELATIVE.sub(link, text)
