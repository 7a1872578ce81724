"""What the pages offer besides the work of a clinic: SQL, a gateway to break, retries, a forged webhook, and a clock to
move."""

from __future__ import annotations

import json
import time
from datetime import timedelta
from http.client import HTTPConnection
from uuid import uuid4

from django.conf import settings
from django.contrib import messages
from django.db import IntegrityError, connection
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.utils import timezone
from django.views.decorators.http import require_POST

from duebox import deliveries
from duebox.destinations.webhooks import new_secret, signed_headers
from examples.clinic import example_data, forms, outside
from examples.clinic import fast_forward as clock
from examples.clinic.models import Appointment
from examples.clinic.raw_sql import statements
from examples.clinic.refusals import Refused

STEPS = {"hour": timedelta(hours=1), "day": timedelta(days=1)}


@require_POST
def add_example_data(request: HttpRequest) -> HttpResponse:
    if Appointment.objects.exists():
        raise Refused("there are appointments already")
    return forms.answer(request, {"appointment": example_data.add().reference})


@require_POST
def run_statement(request: HttpRequest, name: str) -> HttpResponse:
    """Runs the text that the page shows. Triggers of Duebox note the change, and a worker plans the row anew."""
    appointment = get_object_or_404(Appointment.objects.select_related("patient"), pk=request.POST.get("appointment"))
    statement = statements(appointment).get(name)
    if statement is None:
        raise Refused(f"there is no statement {name!r}", status=400)
    with connection.cursor() as cursor:
        try:
            cursor.execute(statement.text)
        except IntegrityError:
            raise Refused("the doctor has another appointment at that time") from None
        told = f"UPDATE {cursor.rowcount}: {statement.title}. Django did not notice; the plan follows."
    return forms.answer(request, {"appointment": appointment.reference}, told)


@require_POST
def switch_gateway(request: HttpRequest) -> HttpResponse:
    up = forms.choice(request, "to", ["up", "down"]) == "up"
    outside.switch_gateway(up=up)
    told = "The SMS gateway works again." if up else "The SMS gateway is down: text messages fail from now on."
    return forms.answer(request, {"gateway": "up" if up else "down"}, told)


@require_POST
def retry_dead_letters(request: HttpRequest) -> HttpResponse:
    done = deliveries.retry(state="dead", by="a visitor of the clinic")
    told = f"{len(done.ids)} dead letter{'' if len(done.ids) == 1 else 's'} retried."
    return forms.answer(request, {"retried": done.ids}, told)


@require_POST
def send_forgery(request: HttpRequest) -> HttpResponse:
    """A webhook that somebody else sends to the receiver: it looks right, but the secret is a guess."""
    if not settings.RECEIVER_PORT:
        raise Refused("no program receives webhooks here; start the clinic with `make demo`")
    forged = {"id": f"forged-{uuid4()}", "type": "appointment.cancelled", "data": {"reference": "A-1"}}
    body = json.dumps(forged).encode()
    headers = signed_headers(forged["id"], int(time.time()), body, [new_secret()])
    receiver = HTTPConnection("127.0.0.1", settings.RECEIVER_PORT, timeout=5)
    receiver.request("POST", "/hook", body, {"Content-Type": "application/json", **headers})
    answer = receiver.getresponse()
    messages.success(request, f"The receiver answered {answer.status}: {answer.read().decode()}.")
    receiver.close()
    return redirect("/outgoing/")


@require_POST
def fast_forward(request: HttpRequest) -> HttpResponse:
    """The clock goes on by an hour or a day, or to just before what comes next."""
    if not clock.fast_forward.is_possible:
        raise Refused("the clock is the real one; start the clinic with `make demo` to move it")
    to = forms.choice(request, "to", ["next", *STEPS])
    if to == "next":
        following = clock.next_moment()
        if following is None:
            raise Refused("nothing is planned")
        target = following + timedelta(seconds=1)
    else:
        target = timezone.now() + STEPS[to]
    clock.fast_forward.to(target)
    return forms.answer(request, {"to": target.isoformat()})
