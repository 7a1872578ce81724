"""Where events are sent: health, what waits, pausing; and webhook endpoints with their last answers."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from datetime import timedelta
from typing import Any
from uuid import UUID

from django.core.management.base import CommandError
from django.http import Http404, HttpRequest, HttpResponse

from duebox import clock
from duebox.cli.destinations import all_states, endpoints, is_configured, known, waiting
from duebox.conf import conf
from duebox.dashboard.page import done, forbidden, may, page, show
from duebox.dashboard.snapshot import forget_all
from duebox.dead_letters.fingerprint import telling_line
from duebox.destinations import registry
from duebox.destinations.names import serves_endpoints, webhooks
from duebox.destinations.registry import subscriptions
from duebox.events.address import Address
from duebox.models import WebhookEndpoint
from duebox.observe import rollup
from duebox.observe.rollup import Total
from duebox.store import destinations as store
from duebox.store.destinations import State

MOST_ENDPOINTS = 200
LAST_ATTEMPTS = 30
OVERLAPS = {"24 hours": timedelta(hours=24), "7 days": timedelta(days=7), "not at all": timedelta()}
"""How long the previous secret signs as well. The first one is the default."""
EFFECTS = {
    "pause": "Nothing is sent to it until it is resumed. Its events wait, without using up attempts.",
    "resume": "It is sent what waits for it. An open circuit breaker is closed.",
    "enable": "It is sent events again from now on. What it missed meanwhile stays discarded.",
    "disable": "Nothing is sent to it until it is enabled again. It misses the events of that time.",
    "test": "An event of the type duebox.webhook.test is sent to it now.",
}


@page("view_events")
def destinations(request: HttpRequest) -> HttpResponse:
    using = conf().DATABASE
    now = clock.now()
    totals = rollup.totals("subscriber", now - timedelta(hours=1), now)
    states = all_states(using)
    parts = {Address.parse(each.name).key: each for each in states if _is_endpoint(each)}
    rows = [_row(each, totals.get(each.name), parts.values()) for each in states if not _is_endpoint(each)]
    found = _endpoints(using, list(parts))
    context = {
        "rows": rows,
        "endpoints": [_endpoint_row(each, parts.get(str(each.pk))) for each in found[:MOST_ENDPOINTS]],
        "more": len(found) > MOST_ENDPOINTS,
        "most": MOST_ENDPOINTS,
    }
    return show(request, "destinations", context, live=True)


def _is_endpoint(each: State) -> bool:
    address = Address.parse(each.name)
    return bool(address.key) and address.alias in subscriptions() and serves_endpoints(address.alias)


def _endpoints(using: str, noted: list[str]) -> list[WebhookEndpoint]:
    """Those first for which something waits or of which there is something to say; one more than are shown."""
    rows = WebhookEndpoint.objects.using(using).order_by("organization", "id")
    first = list(rows.filter(pk__in=noted[: MOST_ENDPOINTS + 1])) if noted else []
    others = rows.exclude(pk__in=[each.pk for each in first])
    return first + list(others[: MOST_ENDPOINTS + 1 - len(first)])


def _endpoint_row(each: WebhookEndpoint, state: State | None) -> dict[str, Any]:
    health_of = health(state) if state else "ok"
    return {
        "endpoint": each,
        "health": "disabled" if each.disabled_at else "enabled" if health_of == "ok" else health_of,
        "waiting": waiting(state) if state else "0",
        "dead": state.dead if state else 0,
    }


def _row(each: State, total: Total | None, parts: Iterable[State]) -> dict[str, Any]:
    """What waits for a destination with all its endpoints."""
    tried = total.delivered + total.retried + total.dead if total else 0
    all_parts = [each, *(part for part in parts if part.name.startswith(f"{each.name}/"))]
    more = any(part.more_waiting for part in all_parts)
    subscription = subscriptions().get(Address.parse(each.name).alias)
    return {
        "state": each,
        "name": Address.parse(each.name).plain,
        "health": health(each),
        "error": telling_line(each.error) if each.error else "",
        "backend": str(subscription.entry.get("BACKEND", "")).rpartition(".")[2] if subscription else "",
        "success": total.delivered / tried if total and tried else None,
        "tried": tried,
        "waiting": f"{sum(part.waiting for part in all_parts):,}{'+' * more}",
        "dead": sum(part.dead for part in all_parts),
        "p50": rollup.percentile(total.duration, 0.5) if total else None,
        "p95": rollup.percentile(total.duration, 0.95) if total else None,
    }


def health(each: State) -> str:
    if not is_configured(each):
        return "orphaned"
    if each.paused_at:
        return "paused"
    if each.open_until and each.open_until > clock.now():
        return "open"
    return "failing" if each.failing_since else "ok"


@page("view_events")
def act(request: HttpRequest, name: str, verb: str) -> HttpResponse:
    """Pause or resume a destination, or an endpoint as `hooks/<id>`."""
    if verb not in ("pause", "resume"):
        raise Http404(verb)
    if not may(request, "pause"):
        return forbidden(request, "pause")
    using = conf().DATABASE
    try:
        stored, endpoint = known(name, using, also_removed=verb == "resume")
    except CommandError as error:
        raise Http404(str(error)) from error
    if request.method == "POST":
        user: Any = request.user
        told = f"{name} is {verb}d."
        note = request.POST.get("note", "").strip() or f"paused by {user.get_username()}"
        if verb == "pause":
            if endpoint:
                endpoints().pause(endpoint, note)
            else:
                registry.pause(using, stored, note)
        elif not (endpoints().resume(endpoint) if endpoint else registry.resume(using, stored)):
            told = f"{name} was not paused, and its circuit breaker was not open. Nothing has changed."
        forget_all()
        return done(request, told, "destinations")
    return _asked(request, name, verb, asks=verb == "pause")


@page("view_events")
def endpoint(request: HttpRequest, id: UUID) -> HttpResponse:
    row, using = _endpoint(id), conf().DATABASE
    serving = webhooks()
    attempts = store.last_attempts(using, serving.alias, row.pk, LAST_ATTEMPTS) if serving else []
    context = {
        "section": "destinations",
        "endpoint": row,
        "name": f"{serving.alias}/{row.pk}" if serving else "",
        "attempts": attempts,
        "acts": ["test", "enable" if row.disabled_at else "disable", "rotate"] if serving else [],
    }
    return show(request, "endpoint", context, live=True)


@page("view_events")
def act_on_endpoint(request: HttpRequest, id: UUID, verb: str) -> HttpResponse:
    if verb not in ("enable", "disable"):
        raise Http404(verb)
    if not may(request, "manage_destinations"):
        return forbidden(request, "manage_destinations")
    row = _endpoint(id)
    if request.method != "POST":
        return _asked(request, str(row), verb, asks=verb == "disable")
    if verb == "enable":
        endpoints().enable(row)
    else:
        endpoints().disable(row, request.POST.get("note", "").strip() or "disabled on the dashboard")
    return done(request, f"{row.host} is {verb}d.", "endpoint", row.pk)


@page("view_events")
def rotate_secret(request: HttpRequest, id: UUID) -> HttpResponse:
    """A new secret, shown once in the answer to the form. The form names the secret that it replaces: sent twice, the
    second one would end the secret that receivers still have."""
    if not may(request, "manage_destinations"):
        return forbidden(request, "manage_destinations")
    row = _endpoint(id)
    context: dict[str, Any] = {"section": "destinations", "endpoint": row, "overlaps": OVERLAPS}
    if request.method == "POST":
        row = WebhookEndpoint.objects.using(conf().DATABASE).select_for_update().get(pk=row.pk)
        overlap = request.POST.get("overlap", "")
        if overlap not in OVERLAPS:
            context["problem"] = "Nothing was done: choose how long the previous secret stays valid."
        elif request.POST.get("replaces") != _secret_name(row):
            context["problem"] = "Nothing was done: the secret was replaced after this page was loaded."
        else:
            context["secret"] = endpoints().rotate(row, overlap=OVERLAPS[overlap])
    context |= {"endpoint": row, "replaces": _secret_name(row)}
    return show(request, "rotate_secret", context, status=400 if "problem" in context else 200)


def _secret_name(row: WebhookEndpoint) -> str:
    """Names the stored secret without telling it."""
    return hashlib.sha256(row.secret.encode()).hexdigest()[:16]


@page("view_events", atomic=False)
def test_endpoint(request: HttpRequest, id: UUID) -> HttpResponse:
    """Without a transaction, which would be open until the endpoint has answered."""
    if not may(request, "manage_destinations"):
        return forbidden(request, "manage_destinations")
    row = _endpoint(id)
    if request.method != "POST":
        return _asked(request, str(row), "test")
    tried = endpoints().test(row)
    answer = f"it answered {tried.status}" if tried.status else f"it failed: {tried.error}"
    return done(request, f"Sent a test: {answer}, in {tried.took_ms:.0f} ms.", "endpoint", row.pk)


def _asked(request: HttpRequest, name: str, verb: str, *, asks: bool = False) -> HttpResponse:
    """The page that says what an action does, before it is done."""
    context = {"section": "destinations", "name": name, "verb": verb, "effect": EFFECTS[verb], "asks": asks}
    return show(request, "act_on_destination", context)


def _endpoint(id: UUID) -> WebhookEndpoint:
    row = WebhookEndpoint.objects.using(conf().DATABASE).filter(pk=id).first()
    if row is None:
        raise Http404(f"No endpoint has the id {id}.")
    return row
