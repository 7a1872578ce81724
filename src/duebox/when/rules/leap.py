"""Dates a month does not have: Feb 29, the 31st of a short month."""

from __future__ import annotations

from calendar import monthrange
from datetime import date

from duebox.when.policy import Leap


def date_in_month(year: int, month: int, number: int, leap: Leap) -> date | None:
    """Day `number` of a month, negative counting from its end; a missing one by policy.

    Always from the number the user gave: adding a month to last month's answer would forget the 31st for good.
    """
    if 1 <= number <= 28:
        return date(year, month, number)
    length = monthrange(year, month)[1]
    if 1 <= number <= length:
        return date(year, month, number)
    if -length <= number < 0:
        return date(year, month, length + 1 + number)
    # A day counted from the end of the month that falls before its start has no neighbour to move to.
    if number < 0 or leap is Leap.OMIT:
        return None
    if leap is Leap.BACKWARD:
        return date(year, month, length)
    return date(year + month // 12, month % 12 + 1, 1)
