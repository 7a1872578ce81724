"""One case of an event pattern → the package's answer, compared with the expected one."""

from __future__ import annotations

from typing import Any

from duebox.destinations.event_pattern import compile
from duebox.exceptions import InvalidPattern

Case = dict[str, Any]


def failure(case: Case) -> str | None:
    """What is wrong with the package's answer to a case; None if nothing is."""
    found, why = _answer(case)
    return None if found == case["matches"] else f"expected {case['matches']}, found {found}: {why}"


def _answer(case: Case) -> tuple[bool | str, str]:
    try:
        pattern = compile(case["pattern"])
    except InvalidPattern as refusal:
        return "invalid", str(refusal)
    try:
        return pattern.matches(case["event"]), pattern.why(case["event"])
    except Exception as error:
        return "an error", repr(error)
