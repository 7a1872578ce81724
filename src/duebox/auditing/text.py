"""What may stand in a column of text: a stranger's text is cleaned, a caller's is taken whole or refused."""

from __future__ import annotations

import re

from django.db import models

from duebox.exceptions import InvalidAudit

LIMIT = 500
# Control characters, line separators and halves of surrogates. The chain relies on there being none.
_UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")


def cleaned(text: str, limit: int = LIMIT) -> str:
    return _UNPRINTABLE.sub("", text)[:limit]


def printable(text: str) -> str:
    r"""For a terminal: what would steer it is written as \x9b."""
    return "".join(each if each.isprintable() else repr(each)[1:-1] for each in text)


def identity(value: object, name: str) -> str:
    """An id as text; of a model instance its primary key. None is nobody."""
    if value is None:
        return ""
    if isinstance(value, models.Model) and value.pk is None:
        raise InvalidAudit(f"{name}={value!r} has no primary key; save it first, or give a pair like ('member', 42).")
    text = str(value.pk if isinstance(value, models.Model) else value)
    if not text or len(text) > LIMIT or _UNPRINTABLE.search(text):
        raise InvalidAudit(f"{name}={text[:80]!r} must be 1 to {LIMIT} printable characters.")
    return text
