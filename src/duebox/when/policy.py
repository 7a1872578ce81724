"""The choices a user makes once, by name, and sees again in every preview."""

from __future__ import annotations

from difflib import get_close_matches
from enum import StrEnum
from typing import TypeVar

from duebox.when.errors import WhenError


class Gap(StrEnum):
    """A local time that clocks jump over (02:30 on the night summer time starts)."""

    SHIFT_FORWARD = "shift_forward"
    SHIFT_BACKWARD = "shift_backward"
    NEXT_VALID = "next_valid"
    SKIP = "skip"
    REJECT = "reject"


class Fold(StrEnum):
    """A local time that clocks show twice (01:30 on the night summer time ends)."""

    FIRST = "first"
    SECOND = "second"
    BOTH = "both"
    REJECT = "reject"


class Leap(StrEnum):
    """A date the month does not have (Feb 29, the 31st): leave it out, or move it to a neighbour."""

    OMIT = "omit"
    BACKWARD = "backward"
    FORWARD = "forward"


class Closed(StrEnum):
    """An occurrence on a day the business calendar calls closed."""

    SKIP = "skip"
    FORWARD = "forward"
    BACKWARD = "backward"


class Late(StrEnum):
    """An occurrence that is already past when it gets planned or re-planned."""

    SKIP = "skip"
    FIRE_NOW = "fire_now"


class CatchUpMode(StrEnum):
    """Occurrences that came due while no worker ran."""

    NONE = "none"
    LATEST = "latest"
    ALL = "all"


Choice = TypeVar("Choice", bound=StrEnum)


def choose(options: type[Choice], value: Choice | str) -> Choice:
    """Read a policy by name, or refuse it and list what there is."""
    if isinstance(value, options):
        return value
    try:
        return options(value)
    except ValueError:
        names = [option.value for option in options]
        near = get_close_matches(str(value), names, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"use one of {', '.join(names)}."
        raise WhenError(f"{options.__name__} policy {value!r} does not exist; {hint}") from None
