"""System checks of destinations and routes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.apps import AppConfig
from django.core.checks import CheckMessage, Error, Warning, register

from duebox.conf import conf
from duebox.conf import mistakes as settings_mistakes
from duebox.contracts import types
from duebox.destinations.configured import mistakes, subscriptions
from duebox.destinations.routes import Route, read_route
from duebox.destinations.subscription import backend
from duebox.entrypoints.celery_kick import app_of_settings
from duebox.exceptions import DueboxError


@register("duebox")
def check_destinations(app_configs: Sequence[AppConfig] | None, **kwargs: Any) -> list[CheckMessage]:
    return [Error(message, hint=hint, id="duebox.E009") for message, hint in mistakes()]


@register("duebox")
def check_that_destinations_can_be_made(app_configs: Sequence[AppConfig] | None, **kwargs: Any) -> list[CheckMessage]:
    found: list[CheckMessage] = []
    for alias, each in subscriptions().items():
        where = f"DUEBOX['DESTINATIONS'][{alias!r}]"
        try:
            problems = each.destination().check()
        except DueboxError as error:
            problems = [(str(error), "See the how-to of this destination for its options.")]
        found += [Error(f"{where}: {message}", hint=hint, id="duebox.E010") for message, hint in problems]
    return found


@register("duebox")
def check_that_routes_lead_somewhere(app_configs: Sequence[AppConfig] | None, **kwargs: Any) -> list[CheckMessage]:
    """A typing mistake in a route is silent otherwise: nothing ever comes."""
    declared = sorted({each.name for each in types.declared()})
    kind = Error if conf().UNDECLARED == "refuse" else Warning
    return [
        kind(
            f"A route to {', '.join(route.to)} takes {route.match!r}, and no declared event type is like that.",
            hint="Correct the pattern, declare the type with @duebox.event, or remove the route.",
            id="duebox.E011" if kind is Error else "duebox.W008",
        )
        for route in _routes()
        if not _is_internal(route) and not any(route.may_take(name) for name in declared)
    ]


@register("duebox")
def check_that_destinations_are_led_to(app_configs: Sequence[AppConfig] | None, **kwargs: Any) -> list[CheckMessage]:
    """Forgotten in the routes, a destination is as silent as a mistaken route."""
    named = {alias for route in _routes() for alias in route.to}
    return [
        Warning(
            f"DUEBOX['DESTINATIONS'][{alias!r}]: no route leads there, so nothing is ever delivered to it.",
            hint=f"Add a route to DUEBOX['ROUTES'], such as {{'match': 'order.*', 'to': {alias!r}}}, or remove it.",
            id="duebox.W012",
        )
        for alias, each in subscriptions().items()
        if alias not in named and not backend(each.entry).match
    ]


@register("duebox")
def check_that_celery_can_be_asked(app_configs: Sequence[AppConfig] | None, **kwargs: Any) -> list[CheckMessage]:
    settings = conf()
    if settings.MODE != "celery" or any("CELERY" in message for message, _ in settings_mistakes()):
        return []
    try:
        app_of_settings()
    except Exception as error:  # importing it may raise anything
        told = str(error) if isinstance(error, DueboxError) else f"{type(error).__name__}: {error}"
        hint = "Set DUEBOX['CELERY'] = {'APP': 'shop.celery.app'}, the dotted path of what Celery(...) gave."
        return [Error(told, hint=hint, id="duebox.E013")]
    return []


def _routes() -> list[Route]:
    """None where something is wrong with them, which another check says."""
    settings = conf()
    return [read_route(given, settings.DESTINATIONS) for given in settings.ROUTES] if subscriptions() else []


def _is_internal(route: Route) -> bool:
    return isinstance(route.match, str) and route.match.startswith("duebox.")
