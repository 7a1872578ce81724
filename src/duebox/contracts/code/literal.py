"""Values as Python source, on one line if they fit."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

WIDTH = 110


def literal(value: Any, indent: int = 0) -> str:
    """Plain JSON values, as a formatter would write them."""
    if isinstance(value, dict):
        return wrapped("{", [f"{text(name)}: {literal(each, indent + 4)}" for name, each in value.items()], "}", indent)
    if isinstance(value, list):
        return wrapped("[", [literal(each, indent + 4) for each in value], "]", indent)
    return text(value) if isinstance(value, str) else repr(value)


def text(value: str) -> str:
    """In double quotes; what cannot be printed is escaped."""
    if not value.isprintable():
        return json.dumps(value)  # its escapes are Python's as well
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'


def wrapped(begin: str, parts: Sequence[str], end: str, indent: int) -> str:
    """One line, or one for each part when that is too long."""
    line = f"{begin}{', '.join(parts)}{end}"
    if indent + len(line) <= WIDTH and "\n" not in line:
        return line
    inner = "".join(f"{' ' * (indent + 4)}{part},\n" for part in parts)
    return f"{begin}\n{inner}{' ' * indent}{end}"
