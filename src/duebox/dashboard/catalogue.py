"""Event types: their versions, fields, differences, and who receives them."""

from __future__ import annotations

from datetime import timedelta
from itertools import pairwise

from django.http import Http404, HttpRequest, HttpResponse

from duebox import clock
from duebox.cli.events import reasons_of
from duebox.contracts.documents import changes, fields
from duebox.contracts.event_types import declared, versions_of
from duebox.dashboard.page import page, show
from duebox.events.subscribers import receivers_of
from duebox.observe import rollup


@page("view_events")
def catalogue(request: HttpRequest) -> HttpResponse:
    now = clock.now()
    volumes = rollup.totals("event", now - timedelta(days=1), now, histograms=False)
    text = request.GET.get("q", "").strip()
    names = sorted({each.name for each in declared()} | {name for name in volumes if "." in name})
    rows = []
    for name in names:
        versions = versions_of(name)
        newest = versions[max(versions)] if versions else None
        volume = volumes.get(name)
        if text in name:
            rows.append(
                {
                    "name": name,
                    "newest": newest,
                    "versions": sorted(versions),
                    "receivers": [each.name for each in receivers_of(name)],
                    "volume": volume.count if volume else 0,
                }
            )
    return show(request, "catalogue", {"rows": rows, "given": {"q": text}})


@page("view_events")
def event_type(request: HttpRequest, name: str) -> HttpResponse:
    versions = versions_of(name)
    reasons = [each for each in reasons_of(name, _NOTHING) if each.receives != "no"]
    if not versions and not reasons:
        raise Http404(f"No event type {name!r} is declared.")
    ordered = [versions[number] for number in sorted(versions)]
    now = clock.now()
    points = rollup.series("emitted", now - timedelta(days=1), now, timedelta(minutes=30), name=name)
    counts = [point.count for point in points]
    line = {"label": "Events per half hour", "values": counts, "color": "--accent", "fill": True}
    context = {
        "section": "catalogue",
        "name": name,
        "newest": ordered[-1] if ordered else None,
        "versions": [(each, fields(each.schema)) for each in reversed(ordered)],
        "steps": [(old, new, list(changes(old, new))) for old, new in pairwise(ordered)],
        "reasons": reasons,
        "chart": {"x": [point.at.timestamp() for point in points], "series": [line]},
        "total": sum(counts),
    }
    return show(request, "event_type", context)


_NOTHING = {"data": None, "organization": "", "about": "", "database": None}
"""The options of `duebox events routes` where nothing of an event but its type is known."""
