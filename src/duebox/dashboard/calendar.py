"""A month of schedules: what fires on which day.

Where few schedules fire until the end of the month, every occurrence is shown, repetitions included. Where there are
many, the schedules of each day are counted by their next occurrence, from the index by which they fire.
"""

from __future__ import annotations

import re
from calendar import Calendar
from collections.abc import Sequence
from datetime import date, datetime, time, timedelta, tzinfo
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.utils import timezone

from duebox.conf import conf
from duebox.dashboard.page import page, show
from duebox.schedules.upcoming import Upcoming, upcoming
from duebox.store import schedules as store
from duebox.store.run_sql import now

MOST_SCHEDULES = 200
"""With more that fire until the end of the month, days are counted."""
MOST_OCCURRENCES = 1_000
MOST_IN_DAY = 4
MONTHS_AHEAD = 120


@page("view_events")
def calendar(request: HttpRequest) -> HttpResponse:
    using, zone = conf().DATABASE, timezone.get_current_timezone()
    moment = now(using)
    today = moment.astimezone(zone).date()
    month = _month(request.GET.get("month", ""), today)
    weeks = [week for week in Calendar().monthdatescalendar(month.year, month.month) if week[-1] >= today]
    days = [day for week in weeks for day in week]
    starts = [_midnight(day, zone) for day in (*days, days[-1] + timedelta(days=1))]
    coming = _coming(using, max(moment, starts[0]), starts[-1])
    cells = _listed(days, coming, zone) if coming is not None else _counted(using, days, starts)
    context = {
        "section": "schedules",
        "month": month,
        "today": today,
        "weeks": [[cells[day] | {"day": day, "outside": day.month != month.month} for day in week] for week in weeks],
        "counted": coming is None,
        "before": _shifted(month, -1) if month > today.replace(day=1) else None,
        "after": _shifted(month, 1),
    }
    return show(request, "calendar", context, live=True)


def _month(text: str, today: date) -> date:
    """The first day of the month that was asked for; of this one where the text is none, or lies in the past."""
    first = today.replace(day=1)
    if not re.fullmatch("[0-9]{4}-(0[1-9]|1[0-2])", text) or not "1970" < text[:4] < "9999":
        return first
    return min(max(date.fromisoformat(f"{text}-01"), first), _shifted(first, MONTHS_AHEAD))


def _shifted(month: date, by: int) -> date:
    years, place = divmod(month.month - 1 + by, 12)
    return date(month.year + years, place + 1, 1)


def _midnight(day: date, zone: tzinfo) -> datetime:
    return datetime.combine(day, time(), zone)


def _coming(using: str, first: datetime, end: datetime) -> list[Upcoming] | None:
    """Every occurrence from a moment on; None where there are too many."""
    if store.count_before(using, end, MOST_SCHEDULES + 1) > MOST_SCHEDULES:
        return None
    found = upcoming(start=first, until=end, limit=MOST_OCCURRENCES + 1, include_internal=True, using=using)
    return None if len(found) > MOST_OCCURRENCES else found


def _listed(days: Sequence[date], coming: Sequence[Upcoming], zone: tzinfo) -> dict[date, dict[str, Any]]:
    by_day: dict[date, list[Upcoming]] = {day: [] for day in days}
    for each in coming:
        by_day[each.at.astimezone(zone).date()].append(each)
    return {
        day: {"count": f"{len(found):,}", "any": bool(found), "shown": found[:MOST_IN_DAY],
              "more": max(0, len(found) - MOST_IN_DAY), "from": _midnight(day, zone).isoformat()}
        for day, found in by_day.items()
    }  # fmt: skip


def _counted(using: str, days: Sequence[date], starts: Sequence[datetime]) -> dict[date, dict[str, Any]]:
    counts = store.histogram(using, starts)
    return {
        day: {"count": f"{count:,}{'+' * more}", "any": bool(count), "shown": [], "more": 0, "from": start.isoformat()}
        for day, start, (count, more) in zip(days, starts, counts, strict=False)
    }
