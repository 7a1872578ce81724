"""What visitors see: one page about one appointment, and one about what leaves the clinic. Parts of them are asked for
again every second, by htmx.

They work without JavaScript, too: then a visitor reloads them.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import urlencode
from uuid import uuid4

from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import get_object_or_404, render
from django.template.loader import render_to_string
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET

from duebox import deliveries
from duebox.models import Event, Schedule, Worker
from duebox.observe.watch import Sight, latest
from duebox.when import clock_changes, local_time
from examples.clinic import aws, example_data, outside
from examples.clinic.fast_forward import fast_forward, next_moment
from examples.clinic.models import Appointment, Doctor, Message, Patient
from examples.clinic.raw_sql import statements
from examples.clinic.receiver import Received

FEED = 20
LIST = 8
LATEST = 12
LEADS = {
    "-P1D": "1 day before",
    "-PT2H": "2 hours before",
    "-PT15M": "15 minutes before",
    "P1D": "1 day after, if attended",
}
MARKS = {
    "gap_shifted_forward": "{meant:%H:%M} does not exist that day: clocks skip it",
    "fold_first": "{meant:%H:%M} comes twice that day: the first one",
    "fold_second": "{meant:%H:%M} comes twice that day: the second one",
}
STATES = {"completed": "sent", "scheduled": "planned", "cancelled": "taken back"}
STUCK = ("retrying", "dead")
COLOURS = {"delivered": "ok", "discarded": "off", "retried": "warn", "dead": "bad"}
MOVED_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class OnClocks:
    """A moment on three clocks."""

    patient: datetime
    clinic: datetime
    utc: datetime

    @classmethod
    def of(cls, moment: datetime, appointment: Appointment) -> OnClocks:
        zones = (appointment.patient.zone, appointment.doctor.zone, "UTC")
        return cls(*(local_time(moment, zone) for zone in zones))


@dataclass(frozen=True, slots=True)
class Reminder:
    lead: str
    state: str
    clocks: OnClocks | None
    mark: str
    moved_from: datetime | None
    """On the clock of the patient, if that was a moment ago."""
    text: str


class Moves:
    """Which moments the page has shown for each schedule, so that it can point out those that have changed."""

    def __init__(self) -> None:
        self._shown: dict[str, tuple[datetime, datetime | None, float]] = {}

    def seen(self, key: str, due: datetime) -> datetime | None:
        """The moment that it had until just now."""
        now = time.monotonic()
        shown, before, since = self._shown.get(key, (due, None, now))
        if shown != due:
            before, since = shown, now
        self._shown[key] = (due, before, since)
        return before if now - since < MOVED_SECONDS else None


_moves = Moves()


@require_GET
@never_cache
def home(request: HttpRequest) -> HttpResponse:
    appointment = _appointment(request)
    context: dict[str, Any] = {
        "page": "home",
        "appointment": appointment,
        "appointments": Appointment.objects.select_related("patient", "doctor").order_by("-starts_at")[:LIST],
        "patients": Patient.objects.order_by("pk"),
        "doctors": Doctor.objects.order_by("name"),
        "suggestion": _suggestion(),
        "zones": example_data.ZONES,
        # Each form carries its key from the moment it was shown: a double click does things once.
        "key": uuid4(),
        "parts": {name: _part(name, appointment) for name in ON_HOME},
        "can_move_clock": fast_forward.is_possible,
        "is_moving": fast_forward.target is not None,
        "billing": settings.BILLING_ADDRESS,
        "receives": settings.RECEIVER_PORT,
    }
    if appointment:
        context["statements"] = statements(appointment).values()
        context["clocks"] = OnClocks.of(appointment.starts_at, appointment)
        context["changes"] = _clock_changes(appointment)
    return render(request, "clinic/home.html", context)


@require_GET
@never_cache
def outgoing(request: HttpRequest) -> HttpResponse:
    """What other programs got: webhooks, and messages of EventBridge and SQS."""
    context = {
        "page": "outgoing",
        "parts": {name: _part(name, None) for name in ON_OUTGOING},
        "receives": settings.RECEIVER_PORT,
        "aws": settings.AWS_ADDRESS,
    }
    return render(request, "clinic/outgoing.html", context)


@require_GET
@never_cache
def part(request: HttpRequest, name: str) -> HttpResponse:
    """One part of the page; 204 where the browser has it already."""
    if name not in PARTS:
        raise Http404(f"The page has no part {name!r}; it has {', '.join(PARTS)}.")
    found = _part(name, _appointment(request))
    if found["tag"] == request.GET.get("tag"):
        return HttpResponse(status=204)
    return render(request, "clinic/part.html", {"part": found})


@require_GET
def appointment(request: HttpRequest, reference: str) -> JsonResponse:
    found = get_object_or_404(Appointment, pk=reference)
    invoices = list(found.invoices.values("id", "amount", "status"))
    timeline = list(found.timeline.order_by("id").values_list("text", flat=True))
    return JsonResponse({"status": found.status, "invoices": invoices, "timeline": timeline})


def _appointment(request: HttpRequest) -> Appointment | None:
    """The one that was asked for, or the one that was booked last."""
    rows = Appointment.objects.select_related("patient", "doctor")
    asked = request.GET.get("appointment", "")
    booked = Event.objects.filter(type="appointment.booked").order_by("-id").values_list("aggregate_id", flat=True)
    return rows.filter(pk=asked).first() or rows.filter(pk=booked.first()).first()


def _suggestion() -> str:
    """For the form: in three days, in the morning."""
    day = timezone.now() + timedelta(days=3)
    return f"{day:%Y-%m-%d}T{9 + Appointment.objects.count() % 8:02}:00"


def _clock_changes(appointment: Appointment) -> list[tuple[str, str, datetime, datetime]]:
    """Who changes clocks between now and the day after the appointment: whose clock, where, and from when to when."""
    start, end = timezone.now(), appointment.starts_at + timedelta(days=1)
    zones = {appointment.patient.name: appointment.patient.zone, appointment.doctor.name: appointment.doctor.zone}
    return [
        (who, zone, *((change.instant + offset).replace(tzinfo=None) for offset in (change.before, change.after)))
        for who, zone in zones.items()
        if end > start
        for change in clock_changes(zone, start, end)
    ]


# The parts


def _part(name: str, appointment: Appointment | None) -> dict[str, str]:
    context = {"appointment": appointment, **PARTS[name](appointment)}
    html = render_to_string(f"clinic/parts/{name}.html", context)
    tag = hashlib.sha256(html.encode()).hexdigest()[:12]
    asked = urlencode({"appointment": appointment.reference if appointment else "", "tag": tag})
    return {"name": name, "html": html, "tag": tag, "url": f"/parts/{name}/?{asked}"}


def _clock(appointment: Appointment | None) -> dict[str, Any]:
    now = timezone.now()
    following = next_moment()
    return {
        "now": now.replace(tzinfo=None),
        "clocks": OnClocks.of(now, appointment) if appointment else None,
        "target": fast_forward.target,
        "following": following,
        "wait": following - now if following else None,
        "workers": Worker.objects.count(),
    }


def _reminders(appointment: Appointment | None) -> dict[str, Any]:
    if appointment is None:
        return {"reminders": []}
    rows = sorted(Schedule.objects.about(appointment), key=lambda row: [*LEADS].index(_lead(row)))
    sent = dict(Message.objects.values_list("event_id", "text").order_by("-pk")[:100])
    return {"reminders": [_reminder(row, appointment, sent) for row in rows]}


def _reminder(row: Schedule, appointment: Appointment, sent: dict[Any, str]) -> Reminder:
    fired = row.last_event() if row.status == "completed" else None
    due = row.due_at or (fired and datetime.fromisoformat(fired.metadata["schedule"]["due"]))
    moved_from = _moves.seen(row.key, row.due_at) if row.due_at else None
    state = STATES.get(row.status, row.status)
    return Reminder(
        lead=LEADS[_lead(row)],
        state="passed over" if state == "sent" and fired is None else state,
        clocks=OnClocks.of(due, appointment) if due else None,
        mark=_mark(row, due) if due else "",
        moved_from=local_time(moved_from, appointment.patient.zone) if moved_from else None,
        text=sent.get(fired.id, "") if fired else "",
    )


def _lead(row: Schedule) -> str:
    """Each offset of a plan has a schedule of its own, whose key ends in it."""
    return row.key.rpartition(":")[2]


def _mark(row: Schedule, due: datetime) -> str:
    told = MARKS.get(row.marks.partition(",")[0], "")
    return told.format(meant=datetime.fromisoformat(row.local_time)) if told else ""


def _gateway(appointment: Appointment | None) -> dict[str, Any]:
    found = deliveries.find(state=STUCK, limit=LIST)
    letters = {state: [(each, _short(each.error_line)) for each in found if each.state == state] for state in STUCK}
    return {"is_up": outside.gateway_is_up(), **letters}


def _feed(appointment: Appointment | None) -> dict[str, Any]:
    """Without what Duebox does for itself."""
    names = ((each, f"{each.row.type} {each.row.subscriber}") for each in latest(FEED * 4))
    seen = [each for each, name in names if "duebox." not in name][:FEED]
    last = {each.row.delivery_id: each for each in reversed(seen)}
    return {"feed": [_seen(each, is_last=last[each.row.delivery_id] is each) for each in seen]}


def _seen(sight: Sight, *, is_last: bool) -> dict[str, Any]:
    again = f"again in {sight.wait_seconds:.1f} s" if is_last and sight.wait_seconds is not None else ""
    return {
        "row": sight.row,
        # Of an endpoint the destination alone: its id would push the outcome out of sight.
        "handler": sight.row.subscriber.partition("/")[0],
        "about": sight.about,
        "late_ms": None if sight.late_seconds is None else sight.late_seconds * 1000,
        "colour": COLOURS.get(sight.row.outcome, "wait"),
        "note": ": ".join(filter(None, (again, _short(sight.error)))),
    }


def _short(error: str) -> str:
    """Without the module of the exception."""
    name, colon, message = error.partition(": ")
    return f"{name.rpartition('.')[2]}{colon}{message}"


def _webhooks(appointment: Appointment | None) -> dict[str, Any]:
    return {"requests": [_request(each) for each in Received(settings.RECEIVED).latest(LATEST)]}


def _request(stored: dict[str, Any]) -> dict[str, Any]:
    """As it came, and its body in a form that is easier to read."""
    try:
        body = json.loads(stored["body"])
    except ValueError:
        body = stored["body"]  # refused, whatever it is
    return {
        **stored,
        "is_genuine": stored["status"] < 300,
        "event": body,
        "body": json.dumps(body, indent=2, ensure_ascii=False),
        "headers": "\n".join(f"{name}: {value}" for name, value in stored["headers"].items()),
        "at": datetime.fromisoformat(stored["at"]),
    }


def _aws(appointment: Appointment | None) -> dict[str, Any]:
    try:
        queues = {"bus": aws.consumer.from_bus(), "queue": aws.consumer.from_queue()} if settings.AWS_ADDRESS else {}
    except Exception as error:  # boto3 has many: the server is not there yet, or the queues are not
        return {"missing": f"{type(error).__name__}: {error}"}
    return {name: found[:LATEST] for name, found in queues.items()}


PARTS: dict[str, Callable[[Appointment | None], dict[str, Any]]] = {
    "clock": _clock,
    "reminders": _reminders,
    "gateway": _gateway,
    "feed": _feed,
    "webhooks": _webhooks,
    "aws": _aws,
}
ON_OUTGOING = ("webhooks", "aws")
ON_HOME = [name for name in PARTS if name not in ON_OUTGOING]
