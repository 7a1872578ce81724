"""How values are shown: status badges, entities, actors, payloads, attempts and errors."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple
from uuid import UUID

from django.db.models import Count, Q
from django.http import HttpRequest
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils.html import format_html, format_html_join

from duebox.audit_log.policy import MASK
from duebox.conf import conf
from duebox.dead_letters.fingerprint import telling_line
from duebox.models import Attempt, Delivery, Event
from duebox.models.audit import name_of
from duebox.observe.show import json_text, masked

MOST_ATTEMPTS = 100
"""How many a page shows, the newest: an event may have gone to thousands of endpoints."""
_LONGEST = 120
_BADGES = {
    "scheduled": "scheduled",
    **dict.fromkeys(
        ("processing", "due", "running", "retrying", "waiting", "retried", "snoozed", "rescued"), "processing"
    ),
    **dict.fromkeys(("completed", "delivered", "enabled"), "completed"),
    **dict.fromkeys(("failed", "dead", "parked", "disabled"), "failed"),
    **dict.fromkeys(("cancelled", "discarded", "expired"), "cancelled"),
}
"""The colour of each word, by the name of the five that have one: blue, orange, green, red and gray."""


def badge(word: str) -> str:
    """A status in bold capitals. Its colour and its sign are those of `duebox/admin.css`."""
    return format_html('<strong class="duebox-badge duebox-{}">{}</strong>', _BADGES.get(word, "other"), word.upper())


def entity(kind: str, id: str) -> str:
    return f"{kind}:{id}" if kind else "-"


def created_by(row: Any) -> str:
    return name_of(row.actor) or "-"


def as_json(value: Any, *, whole: str = "") -> str:
    return format_html('<pre class="duebox-json">{}</pre>', json_text(value, indent=2, whole=whole))


def payload(row: Any, *, visible: bool) -> str:
    """The data of an event or schedule as `duebox show --payload` shows it, which masks personal data; or only a mask
    for a user who may not see payloads."""
    if not visible:
        return f"{MASK} (your account does not have the permission duebox.view_payload)"
    whole = f"show --as {row._meta.model_name} {row.pk} --payload --json"
    return as_json(masked(row.type, row.version, row.data), whole=whole)


def payload_of_event(id: UUID, *, visible: bool) -> str:
    event = Event.objects.using(conf().DATABASE).filter(id=id).first()
    return payload(event, visible=visible) if event else "-"


def metadata(row: Any, *, visible: bool) -> str:
    return as_json(row.metadata) if visible else MASK


def link_to_event(id: UUID | str, text: str = "") -> str:
    return format_html('<a href="{}">{}</a>', reverse("admin:duebox_event_change", args=[id]), text or id)


class Tries(NamedTuple):
    """How often an event was tried by handlers and destinations, and the error of its last failure."""

    attempts: int = 0
    error: str = ""


def tries_of(event_ids: Iterable[UUID]) -> dict[UUID, Tries]:
    """Of each event, in two queries for all of them."""
    rows = Attempt.objects.using(conf().DATABASE).filter(event_id__in=list(event_ids))
    counted = rows.order_by().values_list("event_id").annotate(runs=Count("id", filter=Q(started_at__isnull=False)))
    failures = rows.filter(outcome__in=["retried", "dead"]).order_by("event_id", "-id").distinct("event_id")
    errors = {line.event_id: short(telling_line(line.note, line.status)) for line in failures}
    return {id: Tries(number, errors.get(id, "")) for id, number in counted}


def states_of(rows: Iterable[Any]) -> dict[Any, str]:
    """The states of events or schedules that are on one page. In the query of the page itself, PostgreSQL would look up
    the state of every row before it takes the first ones."""
    found = list(rows)
    if not found:
        return {}
    known = type(found[0])._default_manager.using(conf().DATABASE).filter(pk__in=[row.pk for row in found])
    return dict(known.with_state().values_list("pk", "state"))


def short(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def attempts_table(event_id: UUID, delivery_id: int | None = None) -> str:
    """The newest attempts of an event, or of one of its deliveries, as a table."""
    rows = Attempt.objects.using(conf().DATABASE).filter(event_id=event_id)
    if delivery_id is not None:
        rows = rows.filter(delivery_id=delivery_id)
    found = list(rows.order_by("-id")[: MOST_ATTEMPTS + 1])
    lines = [{"row": row, "badge": badge(row.outcome)} for row in found[:MOST_ATTEMPTS]]
    shown = {"lines": lines, "most": MOST_ATTEMPTS if len(found) > MOST_ATTEMPTS else None}
    return render_to_string("admin/duebox/attempts.html", shown)


def deliveries_table(event_id: UUID) -> str:
    """The deliveries of an event that are still open, or that failed."""
    rows = Delivery.objects.using(conf().DATABASE).filter(event_id=event_id).with_state().order_by("id")
    found: list[Any] = list(rows[: MOST_ATTEMPTS + 1])
    lines = [
        {"row": row, "badge": badge(row.state), "link": reverse("admin:duebox_delivery_change", args=[row.pk])}
        for row in found[:MOST_ATTEMPTS]
    ]
    shown = {"lines": lines, "most": MOST_ATTEMPTS if len(found) > MOST_ATTEMPTS else None}
    return render_to_string("admin/duebox/deliveries.html", shown)


def listed(lines: Iterable[str]) -> str:
    return (
        format_html("<ul>{}</ul>", items)
        if (items := format_html_join("", "<li>{}</li>", ((each,) for each in lines)))
        else "-"
    )


def may_see_payloads(request: HttpRequest) -> bool:
    user: Any = request.user
    return bool(user.has_perm("duebox.view_payload"))
