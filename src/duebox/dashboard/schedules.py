"""What is to come: schedules, how many fire when, pausing and cancelling them, and a preview of any rule."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from itertools import islice
from typing import Any

from django.core.management.base import CommandError
from django.http import Http404, HttpRequest, HttpResponse

from duebox import clock, when
from duebox.audit_log.record import Acted, record
from duebox.cli.preview import moment, timetable
from duebox.cli.schedules import repetition
from duebox.conf import conf
from duebox.dashboard.page import done, forbidden, may, page, show
from duebox.dashboard.snapshot import forget_all
from duebox.models import Schedule
from duebox.models.schedule import STATES
from duebox.observe import browse
from duebox.observe.browse import ScheduleFilters
from duebox.observe.show import rule_of
from duebox.schedules.plans import restore
from duebox.schedules.schedule import cancel, pause, project_zone, resume
from duebox.schedules.upcoming import Upcoming, upcoming
from duebox.store import schedules as store
from duebox.store.run_sql import now
from duebox.when import WhenError

ACTS: dict[str, tuple[Callable[..., int], str, str]] = {
    "pause": (pause, "paused", "It does not fire until it is resumed. What would have fired meanwhile never does."),
    "resume": (resume, "resumed", "It fires again from its next time on."),
    "cancel": (
        cancel,
        "cancelled",
        "It does not fire any more, also where its plan asks for it, until it is restored.",
    ),
    "restore": (restore, "restored", "It is planned again. Nothing in the past fires by it."),
}
SPANS = {"hour": (timedelta(hours=1), 30), "day": (timedelta(days=1), 48), "week": (timedelta(days=7), 56)}
RULES = ("cron", "daily", "rrule")
LOWEST_TOP = 4
"""The top of the histogram, where fewer fire: one alone does not fill it."""


@page("view_events")
def schedules(request: HttpRequest) -> HttpResponse:
    names = ("state", "type", "about", "plan", "key", "before", "span")
    given = {name: request.GET.get(name, "").strip() for name in names}
    state = given["state"] if given["state"] in STATES else "scheduled"
    span = given["span"] if given["span"] in SPANS else "day"
    filters = ScheduleFilters(
        state=state, type=given["type"], about=given["about"], plan=given["plan"], key=given["key"]
    )
    found = browse.schedules(filters, after=given["before"])
    context = {
        "given": {**given, "state": state, "span": span},
        "states": STATES,
        "spans": SPANS,
        "filtered": any(given[name] for name in ("type", "about", "plan", "key")),
        "found": found,
        "rows": [(each, repetition(each)) for each in found.rows],
        "bars": _bars(span),
    }
    return show(request, "schedules", context, live=not given["before"])


def _bars(span: str) -> dict[str, Any]:
    """What fires in the next hour, day or week, as bars of equal time."""
    length, many = SPANS[span]
    using = conf().DATABASE
    start = now(using)
    counts = store.histogram(using, [start + place * length / many for place in range(many + 1)])
    most = max((count for count, _ in counts), default=0)
    bars = [
        {
            "x": place,
            "height": max(3.0, 100 * count / max(most, LOWEST_TOP)) if count else 0,
            "count": f"{count:,}{'+' if more else ''}",
            "more": more,
            "at": start + place * length / many,
        }
        for place, (count, more) in enumerate(counts)
    ]
    total, capped = sum(count for count, _ in counts), any(more for _, more in counts)
    return {"bars": bars, "many": many, "start": start, "end": start + length, "total": f"{total:,}{'+' * capped}"}


@page("view_events")
def schedule(request: HttpRequest, id: int) -> HttpResponse:
    row = _row(id)
    context = {"section": "schedules", "row": row, "rule": rule_of(row), "acts": _possible(row), "coming": _coming(row)}
    return show(request, "schedule", context, live=True)


def _coming(row: Schedule) -> list[Upcoming]:
    return upcoming(key=row.key, limit=10) if row.status == "scheduled" else []


def _possible(row: Schedule) -> list[str]:
    words = {"scheduled": ["pause", "cancel"], "paused": ["resume", "cancel"]}.get(row.status, [])
    return [*words, *(["restore"] if row.opt_out else [])]


@page("view_events")
def act(request: HttpRequest, id: int, verb: str) -> HttpResponse:
    if verb not in ACTS:
        raise Http404(verb)
    if not may(request, "pause"):
        return forbidden(request, "pause")
    row, (function, word, effect) = _row(id), ACTS[verb]
    if request.method == "POST":
        using = conf().DATABASE
        count = function(row.key, using=using)
        if count:
            record(f"schedule.{word}", "duebox.schedule", [Acted(row.pk, row.organization, {"key": row.key})], using)
        forget_all()
        told = (
            f"The schedule {row.key} is {word}."
            if count
            else f"The schedule {row.key} was not {word}: it is {row.status}."
        )
        return done(request, told, "schedule", id)
    context = {"section": "schedules", "row": row, "rule": rule_of(row), "verb": verb, "effect": effect}
    return show(request, "act_on_schedule", context)


def _row(id: int) -> Schedule:
    row = Schedule.objects.using(conf().DATABASE).defer("data").with_state().filter(id=id).first()
    if row is None:
        raise Http404(f"No schedule has the id {id}.")
    return row


@page("view_events")
def preview(request: HttpRequest) -> HttpResponse:
    """When a rule would fire. Nothing is stored."""
    given = {name: request.GET.get(name, "").strip() for name in (*RULES, "zone", "start", "gap", "fold", "from")}
    context: dict[str, Any] = {
        "section": "schedules",
        "given": {**given, "zone": given["zone"] or project_zone()},
        "gaps": list(when.Gap),
        "folds": list(when.Fold),
    }
    if any(given[name] for name in RULES):
        try:
            context.update(_previewed(given))
        except (CommandError, WhenError, OverflowError) as error:
            context["problem"] = str(error)
    return show(request, "preview", context, status=400 if "problem" in context else 200)


def _previewed(given: dict[str, str]) -> dict[str, Any]:
    table = timetable(given)
    first = moment(given["from"], table.zone) if given["from"] else clock.now()
    found = list(islice(when.upcoming(table, first - timedelta.resolution), 20))
    return {"described": when.describe(table), "occurrences": found, "zone": table.zone}
