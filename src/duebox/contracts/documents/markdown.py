"""Markdown, as far as the pages need it."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any


def cell(text: str) -> str:
    """Text that stays in its cell."""
    return " ".join(text.split()).replace("|", r"\|")


def code(text: str) -> str:
    """Text as it is; the fence is longer than any in it."""
    fence = "`" * (max(map(len, re.findall("`+", text)), default=0) + 1)
    return f"{fence} {text} {fence}" if text[:1] == "`" or text[-1:] == "`" else f"{fence}{text}{fence}"


def value(given: Any) -> str:
    """A value of JSON; a plain text without its quotes."""
    if isinstance(given, str) and given and given.strip() == given and given.isprintable():
        return code(given)
    return code(json.dumps(given, ensure_ascii=False))


def block(text: str, language: str = "") -> str:
    fence = "`" * max(3, *(len(each) + 1 for each in re.findall("`{3,}", text)), 3)
    return f"{fence}{language}\n{text}\n{fence}"


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table; columns without anything in them are left out."""
    columns = [column for column in zip(head, *rows, strict=True) if any(column[1:])]
    first, *rest = zip(*columns, strict=True)
    lines = [first, ["---"] * len(first), *rest]
    return "\n".join(f"| {' | '.join(map(cell, line))} |" for line in lines)


def listed(lines: Sequence[str]) -> str:
    return "\n".join(f"- {line}" for line in lines)


def joined(parts: Sequence[str]) -> str:
    """Paragraphs and blocks with a line between them; a file ends with one."""
    return "\n\n".join(part for part in parts if part) + "\n"


def sentence(text: str) -> str:
    """The first one of a text."""
    return re.split(r"(?<=[.!?])\s+(?=[A-Z])", " ".join(text.split()), maxsplit=1)[0]
