"""What a request says, and what it is told.

The visitor's key (a header, or a hidden field of the form) makes a double click harmless.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date, datetime
from typing import Any
from urllib.parse import urlencode

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import redirect
from django.utils.dateparse import parse_date, parse_datetime

from duebox.when import NonexistentTime, UnknownZone, resolve
from duebox.when.zones import current
from examples.clinic.refusals import Refused


def field(request: HttpRequest, name: str) -> str:
    text = request.POST.get(name, "").strip()
    if not text:
        raise Refused(f"{name} is missing", status=400)
    return text


def number(request: HttpRequest, name: str) -> int:
    text = field(request, name)
    if not text.isdecimal():
        raise Refused(f"{name} {text!r} is not a number", status=400)
    return int(text)


def choice(request: HttpRequest, name: str, choices: Iterable[str]) -> Any:
    """One of the choices of a field."""
    text, known = field(request, name), list(choices)
    if text not in known:
        raise Refused(f"{name} {text!r} is none of {', '.join(known)}", status=400)
    return text


def day(request: HttpRequest, name: str) -> date | None:
    """A date, or None where nothing is said."""
    text = request.POST.get(name, "").strip()
    return _parsed(parse_date, text, "a date") if text else None


def zone(request: HttpRequest) -> str:
    """The name of a zone; UTC where nothing is said."""
    try:
        return current().check(request.POST.get("zone", "").strip() or "UTC")
    except UnknownZone as error:
        raise Refused(str(error), status=400) from None


def moment(text: str, zone: str) -> datetime:
    """An instant; without an offset the text is what the clock on the wall shows in the zone."""
    found: datetime = _parsed(parse_datetime, text, "a date and time")
    if found.tzinfo is not None:
        return found
    try:
        return resolve(found, zone, gap="reject")[0].instant
    except NonexistentTime:
        raise Refused(f"{found:%H:%M} on {found:%a %d %b} does not exist in {zone}: clocks skip it") from None


def key(request: HttpRequest) -> str:
    found = request.headers.get("Idempotency-Key") or request.POST.get("key")
    if not found:
        raise Refused("send an Idempotency-Key header, so that a repeated request does nothing twice", status=400)
    return found


def answer(request: HttpRequest, data: dict[str, Any], told: str = "") -> HttpResponse:
    """For a browser: the page, which shows the appointment that the form was about, and says what was done."""
    if not request.accepts("text/html"):
        return JsonResponse(data, status=201)
    if told:
        messages.success(request, told)
    [shown] = data.get("appointments", [request.POST.get("appointment", "")])[:1]
    return redirect(f"/?{urlencode({'appointment': data.get('appointment', shown)})}")


def _parsed(parse: Any, text: str, what: str) -> Any:
    try:
        found = parse(text)
    except ValueError:
        found = None
    if found is None:
        raise Refused(f"{text!r} is not {what}", status=400)
    return found
