"""`duebox destinations`: the state of destinations, and pausing them."""

from __future__ import annotations

import json
from datetime import datetime
from types import ModuleType
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from duebox import clock
from duebox.cli.output import Group, Verb, aligned, operator, readable
from duebox.conf import conf
from duebox.dead_letters.fingerprint import telling_line
from duebox.destinations import registry
from duebox.destinations.names import ENDPOINTS, destination_name, endpoint_of, near, serves_endpoints
from duebox.destinations.registry import destination_of, subscriptions
from duebox.events.address import Address
from duebox.events.identities import printable
from duebox.exceptions import DueboxError, InvalidAction
from duebox.models import DestinationState, WebhookEndpoint
from duebox.store import destinations
from duebox.store.destinations import State

_ERROR_LIMIT = 120
"""The answer of another system must not break the table."""


def _add_list_options(parser: CommandParser) -> None:
    parser.add_argument("--json", action="store_true", help="print JSON, one destination a line")
    _add_database(parser)


def _add_pause_options(parser: CommandParser) -> None:
    parser.add_argument("name", help="a destination by alias, as in bus, or a part of one: webhooks/<endpoint>")
    parser.add_argument("--note", default="", help="why, for others who see it")
    parser.add_argument("--json", action="store_true", help="print JSON")
    _add_database(parser)


def _add_resume_options(parser: CommandParser) -> None:
    parser.add_argument("name", help="a destination by alias, or a part of one")
    parser.add_argument("--json", action="store_true", help="print JSON")
    _add_database(parser)


def show_all(command: BaseCommand, options: dict[str, Any]) -> None:
    """List the destinations, what waits for each, and whether it is paused or failing."""
    found = all_states(options["database"] or conf().DATABASE)
    if options["json"]:
        for each in found:
            command.stdout.write(json.dumps({**each.as_dict(), "configured": is_configured(each)}))
        return
    if not found:
        command.stdout.write("No destinations; add one to DUEBOX['DESTINATIONS'].")
        return
    rows = [(Address.parse(each.name).plain, waiting(each), str(each.dead), _state_text(each)) for each in found]
    for line in aligned(("destination", "to deliver", "dead", "state"), rows):
        command.stdout.write(line)


def waiting(each: State) -> str:
    """How many wait for it; with a plus sign where not all were counted."""
    return f"{each.waiting:,}{'+' * each.more_waiting}"


def all_states(using: str) -> list[State]:
    """The state of every destination that is configured, has deliveries, or has a stored state."""
    states = {each.name: each for each in destinations.states(using)}
    names = sorted({str(Address.of_destination(alias)) for alias in subscriptions()} | set(states))
    return [states.get(name) or State(name) for name in names]


def pause(command: BaseCommand, options: dict[str, Any]) -> None:
    """Deliver nothing to a destination until it is resumed; its events wait."""
    using = options["database"] or conf().DATABASE
    name, endpoint = known(options["name"], using)
    note = options["note"] or f"paused by {operator()}"
    if endpoint:
        endpoints().pause(endpoint, note)
    else:
        registry.pause(using, name, note)
    said = f"{options['name']} is paused; its events wait until: manage.py duebox destinations resume {options['name']}"
    command.stdout.write(json.dumps({"name": name, "paused": True, "note": note}) if options["json"] else said)


def resume(command: BaseCommand, options: dict[str, Any]) -> None:
    """Resume deliveries to a destination, also if its circuit breaker is open."""
    using = options["database"] or conf().DATABASE
    name, endpoint = known(options["name"], using, also_removed=True)
    resumed = endpoints().resume(endpoint) if endpoint else registry.resume(using, name)
    said = f"{options['name']} {'is resumed' if resumed else 'was neither paused nor stopped by the circuit breaker'}."
    command.stdout.write(json.dumps({"name": name, "resumed": resumed}) if options["json"] else said)


def known(given: str, using: str, *, also_removed: bool = False) -> tuple[str, WebhookEndpoint | None]:
    """The name by which a destination is paused. Of an endpoint also its row, if it was not removed meanwhile."""
    address = Address.of_destination(given)
    if address.alias not in subscriptions():
        raise CommandError(f"{given!r} {_why_unknown(address.alias, using)}")
    name = str(address)
    if not address.key:
        return name, None
    if not serves_endpoints(address.alias):
        try:
            destination_of(name)
        except DueboxError as error:
            raise CommandError(str(error)) from error
        return name, None
    if row := endpoint_of(using, address.key):
        return str(Address.of_destination(address.alias, row.pk)), row
    if also_removed and DestinationState.objects.using(using).filter(name=name).exists():
        return name, None
    raise CommandError(f"{given!r} is not an endpoint; {ENDPOINTS}")


def _why_unknown(alias: str, using: str) -> str:
    try:
        destination_name(using, alias)
    except InvalidAction:
        return f"is not a destination; {near(alias, subscriptions())}"
    return "is not configured any more; put it back into DUEBOX['DESTINATIONS'] first."


def endpoints() -> ModuleType:
    """Imported late: it needs optional packages for webhooks."""
    from duebox.destinations.webhooks import endpoints

    return endpoints


def _state_text(each: State) -> str:
    if not is_configured(each):
        return _text_of_unconfigured(each)
    error = _short(printable(telling_line(each.error)))
    if each.paused_at:
        return f"paused since {_second(each.paused_at)}: {printable(each.paused_note)}"
    if each.open_until and each.open_until > clock.now():
        return f"no attempts until {_second(each.open_until)}: {error}"
    if each.failing_since:
        return f"failing since {_second(each.failing_since)}: {error}"
    return "ok"


def _text_of_unconfigured(each: State) -> str:
    if not each.waiting:
        return "not configured; nothing waits"
    wait = "1 waits" if each.waiting == 1 else f"{waiting(each)} wait"
    return f"not configured: {wait}; put {_alias(each)!r} back into DUEBOX['DESTINATIONS'] until nothing does"


def is_configured(each: State) -> bool:
    return _alias(each) in subscriptions()


def _alias(each: State) -> str:
    return Address.parse(each.name).alias


def _second(moment: datetime) -> str:
    return readable(moment.replace(microsecond=0))


def _short(text: str) -> str:
    return text if len(text) <= _ERROR_LIMIT else f"{text[: _ERROR_LIMIT - 1]}…"


def _add_database(parser: CommandParser) -> None:
    parser.add_argument("--database", help="the alias whose tables to look at (DUEBOX['DATABASE'])")


DESTINATIONS = Group(
    "Destinations",
    "List the destinations of events, and pause or resume them.",
    {
        "list": Verb(show_all, _add_list_options),
        "pause": Verb(pause, _add_pause_options),
        "resume": Verb(resume, _add_resume_options),
    },
)
