"""Tests on text."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from duebox.destinations.patterns.values import Test


def prefix(start: str) -> Test:
    return lambda value: value.__class__ is str and value.startswith(start)


def suffix(end: str) -> Test:
    return lambda value: value.__class__ is str and value.endswith(end)


def equals_ignore_case(text: str) -> Test:
    matches = re.compile(_in_any_case(text), re.DOTALL).fullmatch
    return lambda value: value.__class__ is str and matches(value) is not None


def prefix_ignore_case(start: str) -> Test:
    matches = re.compile(_in_any_case(start), re.DOTALL).match
    return lambda value: value.__class__ is str and matches(value) is not None


def suffix_ignore_case(end: str) -> Test:
    finds = re.compile(_in_any_case(end) + r"\Z", re.DOTALL).search
    longest = sum(max(map(len, _forms(character))) for character in end)
    return lambda value: value.__class__ is str and finds(value, max(0, len(value) - longest)) is not None


def _in_any_case(text: str) -> str:
    """Each character in its lower or its upper form; not folded as a whole, so that ß is SS but never ss."""
    return "".join(f"(?:{'|'.join(map(re.escape, _forms(character)))})" for character in text)


def _forms(character: str) -> list[str]:
    # Beyond the first 65,536 characters the engine sees halves, which have no case.
    return sorted({character.lower(), character.upper()}) if ord(character) <= 0xFFFF else [character]


def wildcard(pieces: list[str]) -> Test:
    """Text that consists of the pieces in this order, with anything between them.

    The leftmost place is good enough for every piece in the middle, so this never looks back: a pattern from a stranger
    cannot make it slow, as a regular expression with several `.*` can be.
    """
    first, last, middle = pieces[0], pieces[-1], pieces[1:-1]
    if len(pieces) == 1:
        return lambda value: value.__class__ is str and value == first
    shortest = len(first) + len(last)

    def takes(value: Any) -> bool:
        if value.__class__ is not str or len(value) < shortest:
            return False
        if not value.startswith(first) or not value.endswith(last):
            return False
        return _in_order(value, middle, len(first), len(value) - len(last))

    return takes


def _in_order(value: str, pieces: Iterable[str], start: int, end: int) -> bool:
    for piece in pieces:
        found = value.find(piece, start, end)
        if found < 0:
            return False
        start = found + len(piece)
    return True


def wildcard_pieces(text: str) -> list[str]:
    r"""What stands between the stars, with `\*` and `\\` undone. ValueError says what is wrong with it."""
    pieces, position = [""], 0
    while position < len(text):
        character = text[position]
        if character == "*":
            if text.startswith("**", position):
                raise ValueError("has two stars in a row")
            pieces.append("")
        elif character == "\\":
            position += 1
            if text[position : position + 1] not in ("*", "\\"):
                raise ValueError("has a backslash that is followed by neither * nor another backslash")
            pieces[-1] += text[position]
        else:
            pieces[-1] += character
        position += 1
    return pieces
