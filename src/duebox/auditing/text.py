"""What may stand in a column of text: a stranger's text is cleaned, a caller's is taken whole or refused."""

from __future__ import annotations

from duebox import identities
from duebox.exceptions import InvalidAudit
from duebox.identities import LIMIT, UNPRINTABLE


def cleaned(text: str, limit: int = LIMIT) -> str:
    """Without control characters: the chain relies on there being none."""
    return UNPRINTABLE.sub("", text)[:limit]


def printable(text: str) -> str:
    r"""For a terminal: what would steer it is written as \x9b."""
    return "".join(each if each.isprintable() else repr(each)[1:-1] for each in text)


def identity(value: object, name: str) -> str:
    """An id as text; of a model instance its primary key. None is nobody."""
    return identities.identity(value, name, InvalidAudit)
