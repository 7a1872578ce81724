"""System checks of destinations, routes and stored webhook secrets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from django.apps import AppConfig
from django.core.checks import CheckMessage, Error, Tags, Warning, register
from django.db import DatabaseError, connections, transaction
from django.utils.text import capfirst

from duebox import clock
from duebox.conf import conf
from duebox.conf import mistakes as settings_mistakes
from duebox.contracts import event_types
from duebox.deliveries import orphaned
from duebox.destinations.celery import BROKERS, CeleryTask
from duebox.destinations.celery_broker import Broker
from duebox.destinations.registry import backend, mistakes, subscriptions
from duebox.destinations.routes import OR, Route, read_route
from duebox.exceptions import DueboxError, NotReady, did_you_mean
from duebox.integrations.celery_wakeup import TIMEOUT_SECONDS, app_of_settings
from duebox.models import WebhookEndpoint
from duebox.observe.status import fact_of, ways_out
from duebox.store.targets import OWN_TYPES

_OPEN = ("$ref", "if", "allOf", "anyOf", "oneOf", "dependentSchemas", "patternProperties")
"""Keywords of a schema that may allow fields that are declared elsewhere."""


def check_destinations(app_configs: Sequence[AppConfig] | None, **kwargs: Any) -> list[CheckMessage]:
    return [Error(message, hint=hint, id="duebox.E009") for message, hint in mistakes()]


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


def check_that_routes_lead_somewhere(app_configs: Sequence[AppConfig] | None, **kwargs: Any) -> list[CheckMessage]:
    """Without this check a typing mistake in a route is silent: it just never matches."""
    declared = {each.name for each in event_types.declared()}
    return [
        *(
            _never_matches(
                f"A route to {', '.join(route.to)} matches {route.match!r}, but no declared event type does.",
                "Correct the pattern, declare the type with @duebox.event, or remove the route.",
            )
            for route in _routes()
            if not any(map(route.may_take, declared | OWN_TYPES))
        ),
        *(mistake for route in _routes() for mistake in _unknown_fields(route)),
    ]


def _unknown_fields(route: Route) -> Iterator[CheckMessage]:
    """Fields of the data cannot be checked if the route matches a type without a schema, or with an open one."""
    kinds = [each for each in event_types.declared() if route.may_take(each.name)]
    fields = [_fields(each.schema) for each in kinds]
    if not kinds or None in fields or isinstance(route.match, str) or any(map(route.may_take, OWN_TYPES)):
        return
    known = {name for each in fields for name in each or ()}
    for name in sorted(set(_looked_at(route.match)) - known):
        near = did_you_mean(name, known, capital=True)
        hint = f"{near} If not, declare" if near else "Declare"
        yield _never_matches(
            f"A route to {', '.join(route.to)} filters by {name!r} in the data, but no declared event type that it "
            f"matches "
            "has such a field.",
            f"{hint} the field, or leave it out of the pattern.",
        )


def _never_matches(message: str, hint: str) -> CheckMessage:
    if conf().UNDECLARED == "refuse":
        return Error(message, hint=hint, id="duebox.E011")
    return Warning(message, hint=hint, id="duebox.W008")


def _fields(schema: Mapping[str, Any]) -> set[str] | None:
    """The top-level fields that the data may have; None if any."""
    is_open = any(schema.get(word, False) is not False for word in ("additionalProperties", "unevaluatedProperties"))
    if is_open or "properties" not in schema or any(word in schema for word in _OPEN):
        return None
    return set(schema["properties"])


def _looked_at(pattern: Mapping[str, Any], *, inside: bool = False) -> Iterator[str]:
    """The top-level fields of the data that a pattern requires."""
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


def check_that_destinations_are_led_to(app_configs: Sequence[AppConfig] | None, **kwargs: Any) -> list[CheckMessage]:
    """A destination without a route never receives anything."""
    named = {alias for route in _routes() for alias in route.to}
    return [
        Warning(
            f"DUEBOX['DESTINATIONS'][{alias!r}]: no route leads there, so nothing is ever delivered to it.",
            hint=f"Add a route to DUEBOX['ROUTES'], such as {{'match': 'order.*', 'to': {alias!r}}}, or remove it once "
            "`duebox destinations list` shows no waiting deliveries.",
            id="duebox.W012",
        )
        for alias, each in subscriptions().items()
        if alias not in named and not backend(each.entry).match
    ]


def check_that_nothing_waits_for_nobody(
    app_configs: Sequence[AppConfig] | None, databases: Sequence[str] | None = None, **kwargs: Any
) -> list[CheckMessage]:
    """A handler or a destination that was renamed or removed while deliveries to it were stored."""
    alias = conf().DATABASE
    if alias not in (databases or ()) or connections[alias].vendor != "postgresql" or [*mistakes()]:
        return []
    try:
        with transaction.atomic(using=alias):  # a missing table must not break an outer transaction
            found = orphaned(using=alias)
    except (DatabaseError, NotReady):
        return []  # another check reports it
    return [
        Warning(f"{fact_of(each)}.", hint=f"{capfirst(ways_out(each.subscriber))}", id="duebox.W020") for each in found
    ]


def check_that_celery_can_be_asked(app_configs: Sequence[AppConfig] | None, **kwargs: Any) -> list[CheckMessage]:
    settings = conf()
    if settings.MODE != "celery" or any("CELERY" in message for message, _ in settings_mistakes()):
        return []
    try:
        app = app_of_settings()
    except Exception as error:  # importing it may raise anything
        message = str(error) if isinstance(error, DueboxError) else f"{type(error).__name__}: {error}"
        hint = "Set DUEBOX['CELERY'] = {'APP': 'shop.celery.app'}, the dotted path of your Celery app."
        return [Error(message, hint=hint, id="duebox.E013")]
    where, broker = "DUEBOX['MODE'] is 'celery'", Broker(app, None, TIMEOUT_SECONDS)
    if not app.conf.task_always_eager and (problem := broker.problem()):
        return [Error(f"{where}: {problem[0]}", hint=problem[1], id="duebox.E013")]
    return [*untested_broker(where, broker)]


def check_celery_tasks_and_brokers(app_configs: Sequence[AppConfig] | None, **kwargs: Any) -> list[CheckMessage]:
    """Warnings about options that may be intended, but often are not."""
    found: list[CheckMessage] = []
    for alias, each in subscriptions().items():
        try:
            destination = each.destination()
        except DueboxError:  # another check reports it
            continue
        if isinstance(destination, CeleryTask):
            where = f"DUEBOX['DESTINATIONS'][{alias!r}]"
            found += [*_unknown_task(where, destination), *untested_broker(where, destination.broker)]
    return found


def _unknown_task(where: str, destination: CeleryTask) -> Iterator[CheckMessage]:
    """Celery's worker drops unknown tasks; with settle="accepted" the event counts as delivered by then."""
    if not (name := destination.unknown_task()):
        return
    near = did_you_mean(name, destination._app.tasks, capital=True)
    correct = f"{near} If not, correct" if near else "Correct"
    hint = (
        f"{correct} the name, or import the module of the task where the app is created. If workers of another project "
        "run it, add duebox.W017 to SILENCED_SYSTEM_CHECKS."
    )
    yield Warning(f"{where}: the Celery app has no task {name!r}.", hint=hint, id="duebox.W017")


def untested_broker(where: str, broker: Broker) -> Iterator[CheckMessage]:
    if name := broker.untested():
        yield Warning(
            f"{where}: Duebox is not tested with {name} as Celery's broker, and does not limit how long it waits for "
            "it.",
            hint=f"Use {', '.join(BROKERS)}, or set time limits in broker_transport_options and add "
            "duebox.W031 to SILENCED_SYSTEM_CHECKS.",
            id="duebox.W031",
        )


def _routes() -> list[Route]:
    """None if they are invalid, which another check reports."""
    settings = conf()
    return [read_route(given, settings.DESTINATIONS) for given in settings.ROUTES] if subscriptions() else []


SHOWN = 5
_NEEDED = ("secret", "previous_secret", "previous_until", "headers")


def check_that_endpoints_can_be_read(
    app_configs: Sequence[AppConfig] | None, databases: Sequence[str] | None = None, **kwargs: Any
) -> list[CheckMessage]:
    """A warning and not an error: `migrate` runs this check too, and does not depend on it."""
    using = conf().DATABASE
    if using not in (databases or ()) or connections[using].vendor != "postgresql" or not _is_served():
        return []
    try:
        rows = list(WebhookEndpoint.objects.using(using).only(*_NEEDED).order_by("pk"))
    except DatabaseError:
        return []  # another check reports the database
    found = list(_unreadable(rows))
    if not found:
        return []
    shown = ", ".join(found[:SHOWN]) + (f" and {len(found) - SHOWN} more" if len(found) > SHOWN else "")
    return [
        Warning(
            f"{len(found)} of {len(rows)} webhook endpoints cannot be sent to, because the encryption key is missing: "
            f"{shown}.",
            hint="Add it to DUEBOX['WEBHOOK_KEYS'], or to SECRET_KEY_FALLBACKS if it was derived from SECRET_KEY. If "
            "it is lost, set the secret and headers of each endpoint again: manage.py duebox endpoints rotate ID",
            id="duebox.W014",
        )
    ]


def _is_served() -> bool:
    """Whether webhooks are configured and their packages are installed; another check reports missing packages."""
    from duebox.destinations.webhooks import Webhooks

    try:
        return any(
            issubclass(backend(each.entry), Webhooks) and each.destination() for each in subscriptions().values()
        )
    except DueboxError:
        return False


def _unreadable(rows: list[WebhookEndpoint]) -> Iterator[str]:
    from duebox.destinations.webhooks.encryption import readable

    now = clock.now()
    for row in rows:
        older = row.previous_secret if row.previous_until and row.previous_until > now else ""
        if not all(map(readable, (row.secret, older, row.headers))):
            yield str(row.pk)


def register_checks() -> None:
    for check in (
        check_destinations,
        check_that_destinations_can_be_made,
        check_that_routes_lead_somewhere,
        check_that_destinations_are_led_to,
        check_that_celery_can_be_asked,
        check_celery_tasks_and_brokers,
    ):
        register(check, "duebox")
    for check in (check_that_nothing_waits_for_nobody, check_that_endpoints_can_be_read):
        register(check, Tags.database, "duebox")
