"""Worker processes, by their heartbeats."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse

from duebox.conf import conf
from duebox.dashboard.page import page, show
from duebox.models import Worker
from duebox.store.run_sql import database_time

MOST = 200


@page("view_events")
def workers(request: HttpRequest) -> HttpResponse:
    using = conf().DATABASE
    now = database_time(using)  # the heartbeats are written with the clock of the database
    found = list(Worker.objects.using(using).order_by("-expires_at", "-id")[: MOST + 1])
    rows = [
        {
            "worker": each,
            "alive": each.expires_at.timestamp() > now,
            "beat": max(0.0, now - each.beat_at.timestamp()),
            "up": max(0.0, now - each.started_at.timestamp()),
        }
        for each in found[:MOST]
    ]
    context = {"rows": rows, "more": len(found) > MOST, "most": MOST}
    return show(request, "workers", context, live=True)
