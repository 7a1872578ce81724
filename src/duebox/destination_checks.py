"""System checks of destinations and routes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import Any

from django.apps import AppConfig
from django.core.checks import CheckMessage, Error, Tags, Warning, register
from django.db import DatabaseError, connections, transaction
from django.utils.text import capfirst

from duebox.conf import conf
from duebox.conf import mistakes as settings_mistakes
from duebox.contracts import types
from duebox.deliveries import orphaned
from duebox.destinations.celery import untested_broker
from duebox.destinations.celery_broker import Broker
from duebox.destinations.configured import mistakes, subscriptions
from duebox.destinations.routes import OR, Route, read_route
from duebox.destinations.subscription import backend
from duebox.entrypoints.celery_kick import TIMEOUT_SECONDS, app_of_settings
from duebox.exceptions import DueboxError, NotReady
from duebox.status import fact_of, ways_out
from duebox.store.event_types import OWN_TYPES

_OPEN = ("$ref", "if", "allOf", "anyOf", "oneOf", "dependentSchemas", "patternProperties")
"""Words of a schema that may allow fields which stand elsewhere."""


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
    declared = {each.name for each in types.declared()}
    return [
        *(
            _in_vain(
                f"A route to {', '.join(route.to)} takes {route.match!r}, and no declared event type is like that.",
                "Correct the pattern, declare the type with @duebox.event, or remove the route.",
            )
            for route in _routes()
            if not any(map(route.may_take, declared | OWN_TYPES))
        ),
        *(mistake for route in _routes() for mistake in _unknown_fields(route)),
    ]


def _unknown_fields(route: Route) -> Iterator[CheckMessage]:
    """Of the data nothing can be said where the route takes what has no schema, or an open one."""
    kinds = [each for each in types.declared() if route.may_take(each.name)]
    fields = [_fields(each.schema) for each in kinds]
    if not kinds or None in fields or isinstance(route.match, str) or any(map(route.may_take, OWN_TYPES)):
        return
    known = {name for each in fields for name in each or ()}
    for name in sorted(set(_looked_at(route.match)) - known):
        near = get_close_matches(name, known, n=1)
        hint = f"Did you mean {near[0]!r}? If not, declare" if near else "Declare"
        yield _in_vain(
            f"A route to {', '.join(route.to)} looks at {name!r} in the data, and no declared event type that it takes "
            "has such a field.",
            f"{hint} the field, or leave it out of the pattern.",
        )


def _in_vain(message: str, hint: str) -> CheckMessage:
    if conf().UNDECLARED == "refuse":
        return Error(message, hint=hint, id="duebox.E011")
    return Warning(message, hint=hint, id="duebox.W008")


def _fields(schema: Mapping[str, Any]) -> set[str] | None:
    """What data may hold at the top; None where it may hold anything."""
    is_open = any(schema.get(word, False) is not False for word in ("additionalProperties", "unevaluatedProperties"))
    if is_open or "properties" not in schema or any(word in schema for word in _OPEN):
        return None
    return set(schema["properties"])


def _looked_at(pattern: Mapping[str, Any], *, inside: bool = False) -> Iterator[str]:
    """The fields of the data, at the top of it, that a pattern wants to be there."""
    for name, value in pattern.items():
        if name == OR:
            for branch in value:
                yield from _looked_at(branch, inside=inside)
        elif inside:
            if isinstance(value, Mapping) or {"exists": False} not in value:
                yield name.partition(".")[0]
        elif name == "data" and isinstance(value, Mapping):
            yield from _looked_at(value, inside=True)
        elif name.startswith("data."):
            yield from _looked_at({name.removeprefix("data."): value}, inside=True)


@register("duebox")
def check_that_destinations_are_led_to(app_configs: Sequence[AppConfig] | None, **kwargs: Any) -> list[CheckMessage]:
    """Forgotten in the routes, a destination is as silent as a mistaken route."""
    named = {alias for route in _routes() for alias in route.to}
    return [
        Warning(
            f"DUEBOX['DESTINATIONS'][{alias!r}]: no route leads there, so nothing is ever delivered to it.",
            hint=f"Add a route to DUEBOX['ROUTES'], such as {{'match': 'order.*', 'to': {alias!r}}}, or remove it once "
            "`duebox destinations list` says that nothing waits for it.",
            id="duebox.W012",
        )
        for alias, each in subscriptions().items()
        if alias not in named and not backend(each.entry).match
    ]


@register(Tags.database, "duebox")
def check_that_nothing_waits_for_nobody(
    app_configs: Sequence[AppConfig] | None, databases: Sequence[str] | None = None, **kwargs: Any
) -> list[CheckMessage]:
    """A handler or a destination that was renamed or removed while deliveries to it were stored."""
    alias = conf().DATABASE
    if alias not in (databases or ()) or connections[alias].vendor != "postgresql" or [*mistakes()]:
        return []
    try:
        with transaction.atomic(using=alias):  # a table that is missing must not spoil a transaction of others
            found = orphaned(using=alias)
    except (DatabaseError, NotReady):
        return []  # another check says what is wrong with it
    return [
        Warning(f"{fact_of(each)}.", hint=f"{capfirst(ways_out(each.subscriber))}", id="duebox.W020") for each in found
    ]


@register("duebox")
def check_that_celery_can_be_asked(app_configs: Sequence[AppConfig] | None, **kwargs: Any) -> list[CheckMessage]:
    settings = conf()
    if settings.MODE != "celery" or any("CELERY" in message for message, _ in settings_mistakes()):
        return []
    try:
        app = app_of_settings()
    except Exception as error:  # importing it may raise anything
        told = str(error) if isinstance(error, DueboxError) else f"{type(error).__name__}: {error}"
        hint = "Set DUEBOX['CELERY'] = {'APP': 'shop.celery.app'}, the dotted path of what Celery(...) gave."
        return [Error(told, hint=hint, id="duebox.E013")]
    where, broker = "DUEBOX['MODE'] is 'celery'", Broker(app, None, TIMEOUT_SECONDS)
    if not app.conf.task_always_eager and (problem := broker.problem()):
        return [Error(f"{where}: {problem[0]}", hint=problem[1], id="duebox.E013")]
    return [*untested_broker(where, broker)]


def _routes() -> list[Route]:
    """None where something is wrong with them, which another check says."""
    settings = conf()
    return [read_route(given, settings.DESTINATIONS) for given in settings.ROUTES] if subscriptions() else []
