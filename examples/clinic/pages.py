"""What visitors see."""

from __future__ import annotations

from uuid import uuid4

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import get_object_or_404, render
from django.views.decorators.http import require_GET

import duebox
from duebox.models import Event
from examples.clinic.models import Appointment, Doctor, Patient
from examples.clinic.organizations.models import FeedEntry

LAST = 20


@require_GET
def home(request: HttpRequest) -> HttpResponse:
    context = {
        "appointments": Appointment.objects.select_related("patient").order_by("-starts_at")[:LAST],
        "patients": Patient.objects.order_by("-pk")[:LAST],
        "doctors": Doctor.objects.order_by("name"),
        "feed": FeedEntry.objects.select_related("organization").order_by("-pk")[:LAST],
        "upcoming": duebox.upcoming(days=7, limit=LAST),
        "events": _last_events(),
        # The form carries its key from the moment it was shown: a double click books once.
        "key": uuid4(),
    }
    return render(request, "clinic/home.html", context)


@require_GET
def appointment(request: HttpRequest, reference: str) -> JsonResponse:
    found = get_object_or_404(Appointment, pk=reference)
    invoices = list(found.invoices.values("id", "amount", "status"))
    timeline = list(found.timeline.order_by("id").values_list("text", flat=True))
    return JsonResponse({"status": found.status, "invoices": invoices, "timeline": timeline})


def _last_events() -> list[tuple[Event, str]]:
    events = list(Event.objects.order_by("-id")[:LAST])
    shown = Event.objects.filter(id__in=[event.id for event in events])
    dead = set(shown.dead().values_list("id", flat=True))
    pending = set(shown.pending().values_list("id", flat=True))
    words = {event.id: "dead letter" if event.id in dead else "under way" for event in events}
    return [(event, words[event.id] if event.id in dead | pending else "done") for event in events]
