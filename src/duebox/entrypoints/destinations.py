"""`duebox destinations`: the state of destinations, and pausing them."""

from __future__ import annotations

import json
from datetime import datetime
from types import ModuleType
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from duebox import clock
from duebox.auditing.text import printable
from duebox.conf import conf
from duebox.destinations import pausing
from duebox.destinations.configured import destination_of, subscriptions
from duebox.destinations.known_names import ENDPOINTS, destination_name, endpoint_of, near, serves_endpoints
from duebox.entrypoints.terminal import aligned, operator, readable
from duebox.entrypoints.verbs import Group, Verb
from duebox.exceptions import DueboxError, InvalidAction
from duebox.fingerprint import telling_line
from duebox.models import DestinationState, WebhookEndpoint
from duebox.store import gates
from duebox.store.gates import State
from duebox.subscribers import OUTSIDE

_ERROR_LIMIT = 120
"""What a stranger answered must not break the table."""


def _add_list_options(parser: CommandParser) -> None:
    parser.add_argument("--json", action="store_true", help="print JSON, one destination a line")
    _add_database(parser)


def _add_pause_options(parser: CommandParser) -> None:
    parser.add_argument("name", help="a destination by alias, as in bus, or a part of one: webhooks/<endpoint>")
    parser.add_argument("--note", default="", help="why, for whoever looks")
    parser.add_argument("--json", action="store_true", help="print JSON")
    _add_database(parser)


def _add_resume_options(parser: CommandParser) -> None:
    parser.add_argument("name", help="a destination by alias, or a part of one")
    parser.add_argument("--json", action="store_true", help="print JSON")
    _add_database(parser)


def show_all(command: BaseCommand, options: dict[str, Any]) -> None:
    """List the destinations, what waits for each, and whether it is paused or failing."""
    using = options["database"] or conf().DATABASE
    states = {each.name: each for each in gates.states(using)}
    names = sorted({f"{OUTSIDE}{alias}" for alias in subscriptions()} | set(states))
    found = [states.get(name) or State(name) for name in names]
    if options["json"]:
        for each in found:
            command.stdout.write(json.dumps({**each.as_dict(), "configured": _is_configured(each)}))
        return
    if not found:
        command.stdout.write("No destinations; add one to DUEBOX['DESTINATIONS'].")
        return
    rows = [(each.name.removeprefix(OUTSIDE), str(each.waiting), str(each.dead), _told(each)) for each in found]
    for line in aligned(("destination", "to deliver", "dead", "state"), rows):
        command.stdout.write(line)


def pause(command: BaseCommand, options: dict[str, Any]) -> None:
    """Deliver nothing to a destination until it is resumed; its events wait."""
    using = options["database"] or conf().DATABASE
    name, endpoint = _known(options["name"], using)
    note = options["note"] or f"paused by {operator()}"
    if endpoint:
        _endpoints().pause(endpoint, note)
    else:
        pausing.pause(using, name, note)
    said = f"{options['name']} is paused; its events wait until: manage.py duebox destinations resume {options['name']}"
    command.stdout.write(json.dumps({"name": name, "paused": True, "note": note}) if options["json"] else said)


def resume(command: BaseCommand, options: dict[str, Any]) -> None:
    """Go on delivering to a destination, also where it is left alone because it failed."""
    using = options["database"] or conf().DATABASE
    name, endpoint = _known(options["name"], using, also_removed=True)
    went_on = _endpoints().resume(endpoint) if endpoint else pausing.resume(using, name)
    said = f"{options['name']} {'goes on' if went_on else 'was neither paused nor left alone'}."
    command.stdout.write(json.dumps({"name": name, "resumed": went_on}) if options["json"] else said)


def _known(given: str, using: str, *, also_removed: bool = False) -> tuple[str, WebhookEndpoint | None]:
    """The name by which a destination is paused. Of an endpoint also its row, if it was not removed meanwhile."""
    alias, _, key = given.removeprefix(OUTSIDE).partition("/")
    if alias not in subscriptions():
        raise CommandError(f"{given!r} {_why_unknown(alias, using)}")
    name = f"{OUTSIDE}{alias}/{key}" if key else f"{OUTSIDE}{alias}"
    if not key:
        return name, None
    if not serves_endpoints(alias):
        try:
            destination_of(name)
        except DueboxError as error:
            raise CommandError(str(error)) from error
        return name, None
    if row := endpoint_of(using, key):
        return f"{OUTSIDE}{alias}/{row.pk}", row
    if also_removed and DestinationState.objects.using(using).filter(name=name).exists():
        return name, None
    raise CommandError(f"{given!r} is no endpoint; {ENDPOINTS}")


def _why_unknown(alias: str, using: str) -> str:
    try:
        destination_name(using, alias)
    except InvalidAction:
        return f"is no destination; {near(alias, subscriptions())}"
    return "is not configured any more; put it back into DUEBOX['DESTINATIONS'] first."


def _endpoints() -> ModuleType:
    """Loaded late: it needs packages that only who sends webhooks has."""
    from duebox.destinations.webhooks import endpoints

    return endpoints


def _told(each: State) -> str:
    if not _is_configured(each):
        return _told_of_unconfigured(each)
    error = _short(printable(telling_line(each.error)))
    if each.paused_at:
        return f"paused since {_second(each.paused_at)}: {printable(each.paused_note)}"
    if each.open_until and each.open_until > clock.now():
        return f"left alone until {_second(each.open_until)}: {error}"
    if each.failing_since:
        return f"failing since {_second(each.failing_since)}: {error}"
    return "ok"


def _told_of_unconfigured(each: State) -> str:
    if not each.waiting:
        return "not configured; nothing waits"
    wait = "1 waits" if each.waiting == 1 else f"{each.waiting} wait"
    return f"not configured: {wait}; put {_alias(each)!r} back into DUEBOX['DESTINATIONS'] until nothing does"


def _is_configured(each: State) -> bool:
    return _alias(each) in subscriptions()


def _alias(each: State) -> str:
    return each.name.removeprefix(OUTSIDE).partition("/")[0]


def _second(moment: datetime) -> str:
    return readable(moment.replace(microsecond=0))


def _short(text: str) -> str:
    return text if len(text) <= _ERROR_LIMIT else f"{text[: _ERROR_LIMIT - 1]}…"


def _add_database(parser: CommandParser) -> None:
    parser.add_argument("--database", help="the alias whose tables to look at (DUEBOX['DATABASE'])")


DESTINATIONS = Group(
    "Destinations",
    "Look at the destinations to which events go, and pause or resume them.",
    {
        "list": Verb(show_all, _add_list_options),
        "pause": Verb(pause, _add_pause_options),
        "resume": Verb(resume, _add_resume_options),
    },
)
