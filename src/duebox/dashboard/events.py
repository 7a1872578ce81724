"""Events and deliveries: lists with filters in the URL, and one event with all that is known about it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any
from uuid import UUID

from django.http import Http404, HttpRequest, HttpResponse

from duebox import deliveries
from duebox.cli.preview import moment
from duebox.contracts.event_types import latest, versions_of
from duebox.dashboard.page import may, page, show
from duebox.deliveries import STATES, OpenDelivery
from duebox.models import Event
from duebox.observe import browse
from duebox.observe.browse import EventFilters, Page
from duebox.observe.explain import past_of, present_of
from duebox.observe.find import Target
from duebox.observe.records import load
from duebox.observe.show import MASK, facts, masked
from duebox.schedules.schedule import project_zone

DEEPEST = 20
"""What has more causes above it is shown no further to the right."""
SEARCHED = ("type", "about", "correlation_id", "organization", "since", "until")


@page("view_events")
def events(request: HttpRequest) -> HttpResponse:
    """All events; or with `?state=` the deliveries that are in that state."""
    given = {name: request.GET.get(name, "").strip() for name in (*SEARCHED, "state", "before")}
    context: dict[str, Any] = {"given": given, "states": STATES, "filtered": any(given[name] for name in SEARCHED)}
    if given["state"]:
        return show(request, "events", {**context, "deliveries": _deliveries(given)}, live=not given["before"])
    filters = EventFilters(
        **{name: given[name] for name in ("type", "about", "correlation_id", "organization")},
        since=_moment(given, "since"),
        until=_moment(given, "until"),
    )
    found = browse.events(filters, before=browse.uuid_cursor(given["before"]))
    states = browse.open_states(found.rows)
    rows = [(each, sorted(states.get(each.id, {}).items())) for each in found.rows]
    return show(request, "events", {**context, "found": found, "rows": rows}, live=not given["before"])


def _deliveries(given: Mapping[str, str]) -> Page[OpenDelivery]:
    asked: deliveries.Filters = {"state": given["state"], "since": _moment(given, "since")}
    if given["type"]:
        asked["type"] = given["type"]
    if given["correlation_id"]:
        asked["correlation_id"] = given["correlation_id"]
    if given["organization"]:
        asked["organization"] = given["organization"]
    if given["about"]:
        kind, _, id = given["about"].partition(":")
        asked["about"] = (kind, id)
    found = deliveries.newest(before=browse.id_cursor(given["before"]), limit=browse.LIMIT + 1, payload=False, **asked)
    more = len(found) > browse.LIMIT
    return Page(found[: browse.LIMIT], str(found[browse.LIMIT - 1].id) if more else None)


@page("view_events")
def event(request: HttpRequest, id: UUID) -> HttpResponse:
    records = load(Target("event", str(id)))
    if not records.events:
        raise Http404(f"No event has the id {id}.")
    one = records.events[0]
    try:
        data = payload(one, unmasked=may(request, "view_payloads"))
    except Event.DoesNotExist:
        raise Http404(f"The event {id} was deleted.") from None
    same = [one]
    if one.correlation_id:
        same = list(browse.events(EventFilters(correlation_id=one.correlation_id), limit=100).rows)
    context = {
        "section": "events",
        "event": one,
        "facts": facts(records),
        "whole": f"show {one.id} --payload --json",
        "data": data,
        "tree": [(each, min(depth, DEEPEST)) for each, depth in browse.causes(same)],
        "cause": records.related.get(one.causation_id) if one.causation_id else None,
        "past": past_of(records),
        "present": present_of(records),
        "more": records.more,
    }
    return show(request, "event", context, live=True)


def payload(one: Event, *, unmasked: bool) -> Any:
    """Without the permission: what the type marks as personal is masked; of a type that is not declared, everything,
    since nothing says what is personal."""
    if unmasked:
        return one.data
    declared = versions_of(one.type).get(one.version) or latest(one.type)
    return masked(one.type, one.version, one.data) if declared else _all_masked(one.data)


def _all_masked(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _all_masked(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_all_masked(each) for each in value]
    return value if value is None else MASK


def _moment(given: Mapping[str, str], name: str) -> datetime | None:
    return moment(given[name], project_zone(), name) if given[name] else None
