"""The documentation as data: its pages, their fenced blocks, their links and headings."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent.parent
REFERENCE = ROOT / "docs" / "reference"

_FENCE = re.compile(r"^(?P<indent> *)(?P<ticks>`{3,})(?P<language>[\w{}-]*)[^\n]*$")
_COMMENT = re.compile(r"^\s*<!-- (?P<word>[\w-]+)(?:: (?P<rest>.*?))? -->\s*$")
_LINK = re.compile(r"(?<!!)\[[^\]]*\]\((?P<target>[^)\s]+)\)")


class Block(NamedTuple):
    language: str
    mark: str
    """The word of the comment just above: not-run, afresh, file, background."""
    rest: str
    line: int
    text: str


def pages() -> list[Path]:
    top = [ROOT / name for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")]
    return [*top, *(page for page in sorted((ROOT / "docs").rglob("*.md")) if "_build" not in page.parts)]


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def blocks(page: Path) -> Iterator[Block]:
    opening: re.Match[str] | None = None
    mark = rest = ""
    body: list[str] = []
    start = 0
    for number, line in enumerate(page.read_text().splitlines(), start=1):
        fence = _FENCE.match(line)
        if opening is not None:
            if fence and fence["ticks"] == opening["ticks"] and not fence["language"]:
                yield Block(opening["language"], mark, rest, start, "\n".join(body) + "\n")
                opening, mark, rest = None, "", ""
            else:
                body.append(line.removeprefix(opening["indent"]))
        elif fence:
            opening, body, start = fence, [], number
        elif comment := _COMMENT.match(line):
            mark, rest = comment["word"], comment["rest"] or ""
        elif line.strip():
            mark = rest = ""


def prose(page: Path) -> str:
    """The page without its fenced blocks."""
    kept: list[str] = []
    ticks = ""
    for line in page.read_text().splitlines():
        fence = _FENCE.match(line)
        if fence and not ticks:
            ticks = fence["ticks"]
        elif fence and fence["ticks"] == ticks and not fence["language"]:
            ticks = ""
        elif not ticks:
            kept.append(line)
    return "\n".join(kept)


def links(page: Path) -> Iterator[str]:
    for match in _LINK.finditer(prose(page)):
        yield match["target"]


def anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#{1,4} (.+)$", prose(page), flags=re.MULTILINE)
    return {_slug(heading) for heading in headings}


def _slug(heading: str) -> str:
    """As GitHub and MyST make them: lower case, spaces to hyphens, other signs dropped."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")
