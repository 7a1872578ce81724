"""Values as people read them."""

from __future__ import annotations

import json
from typing import Any

LONGEST = 60


def shown(value: Any) -> str:
    """A value as JSON, or as near to it as it gets, cut to a readable length."""
    try:
        text = f"'{value}'" if isinstance(value, str) else json.dumps(value)
    except (TypeError, ValueError, RecursionError):
        text = type(value).__name__
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"
