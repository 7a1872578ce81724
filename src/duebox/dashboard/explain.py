"""What happened to an event, an entity, a schedule or in a request, in words: `duebox explain` as a page."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse

from duebox.dashboard.page import may, page, show
from duebox.exceptions import NotFound
from duebox.observe.explain import explain as explained
from duebox.observe.find import KINDS


@page("view_events")
def explain(request: HttpRequest) -> HttpResponse:
    text, kind = request.GET.get("q", "").strip(), request.GET.get("as", "")
    context = {"given": {"q": text, "as": kind}, "kinds": KINDS}
    if not text:
        return show(request, "explain", context)
    try:
        found = explained(text, kind=kind if kind in KINDS else None, audit=may(request, "view_audit"))
    except NotFound as error:
        return show(request, "explain", {**context, "unknown": str(error)})
    return show(
        request, "explain", {**context, "found": found, "past": found.past, "present": found.present}, live=True
    )
