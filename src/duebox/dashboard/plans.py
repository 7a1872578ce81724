"""The plans of the project, and what became of schedules: moved, missed, skipped, cancelled."""

from __future__ import annotations

from datetime import timedelta

from django.http import HttpRequest, HttpResponse

from duebox import clock
from duebox.dashboard.page import page, show
from duebox.models import ScheduleLog
from duebox.observe import browse, rollup
from duebox.schedules.plans import plans as declared


@page("view_events")
def plans(request: HttpRequest) -> HttpResponse:
    now = clock.now()
    fired = rollup.totals("schedule", now - timedelta(days=1), now, histograms=False)
    rows = [
        {"plan": each, "model": each.model._meta.label, "fired": total.count if (total := fired.get(each.event)) else 0}
        for each in sorted(declared(), key=lambda plan: plan.name)
    ]
    return show(request, "plans", {"section": "schedules", "rows": rows})


@page("view_events")
def schedule_log(request: HttpRequest) -> HttpResponse:
    """What did not go as planned, the newest first."""
    words = ScheduleLog.What.values
    what, before = request.GET.get("what", ""), request.GET.get("before", "")
    found = browse.schedule_log(what if what in words else "", before=browse.id_cursor(before))
    context = {
        "section": "schedules",
        "words": words,
        "given": {"what": what, "before": before},
        "found": found,
        "filtered": what in words,
    }
    return show(request, "schedule_log", context, live=not before)
