"""`duebox destinations`, `duebox pause` and `duebox resume`: how destinations fare, and leaving them alone."""

from __future__ import annotations

import json
from datetime import datetime
from difflib import get_close_matches
from types import ModuleType
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from duebox import clock
from duebox.auditing.text import printable
from duebox.conf import conf
from duebox.destinations import pausing
from duebox.destinations.configured import destination_of, subscriptions
from duebox.entrypoints.dead import operator
from duebox.entrypoints.subscriber_names import ENDPOINTS, endpoint_of, serves_endpoints, stored_name
from duebox.entrypoints.terminal import aligned, readable
from duebox.exceptions import DueboxError
from duebox.fingerprint import telling_line
from duebox.models import Endpoint, Gate
from duebox.origins import bound
from duebox.store import gates
from duebox.store.gates import State
from duebox.subscribers import OUTSIDE

_ERROR_LIMIT = 120
"""What a stranger answered must not break the table."""


def add_destinations_options(parser: CommandParser) -> None:
    parser.add_argument("--json", action="store_true", help="print JSON, one destination a line")
    _add_database(parser)


def add_pause_options(parser: CommandParser) -> None:
    parser.add_argument("name", help="a destination by alias, as in bus, or a part of one: webhooks/<endpoint>")
    parser.add_argument("--note", default="", help="why, for whoever looks")
    parser.add_argument("--json", action="store_true", help="print JSON")
    _add_database(parser)


def add_resume_options(parser: CommandParser) -> None:
    parser.add_argument("name", help="a destination by alias, or a part of one")
    parser.add_argument("--json", action="store_true", help="print JSON")
    _add_database(parser)


def destinations(command: BaseCommand, options: dict[str, Any]) -> None:
    """List the destinations: what waits for each, and how it fares."""
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
    with bound(actor=operator()):
        if endpoint:
            _endpoints().pause(endpoint, note)
        else:
            pausing.pause(using, name, note)
    said = f"{options['name']} is paused; its events wait until: manage.py duebox resume {options['name']}"
    command.stdout.write(json.dumps({"name": name, "paused": True, "note": note}) if options["json"] else said)


def resume(command: BaseCommand, options: dict[str, Any]) -> None:
    """Go on delivering to a destination, also where it was left alone because it failed."""
    using = options["database"] or conf().DATABASE
    name, endpoint = _known(options["name"], using, also_removed=True)
    with bound(actor=operator()):
        went_on = _endpoints().resume(endpoint) if endpoint else pausing.resume(using, name)
    said = f"{options['name']} {'goes on' if went_on else 'was neither paused nor left alone'}."
    command.stdout.write(json.dumps({"name": name, "resumed": went_on}) if options["json"] else said)


def _known(given: str, using: str, *, also_removed: bool = False) -> tuple[str, Endpoint | None]:
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
    if also_removed and Gate.objects.using(using).filter(name=name).exists():
        return name, None
    raise CommandError(f"{given!r} is no endpoint; {ENDPOINTS}")


def _why_unknown(alias: str, using: str) -> str:
    try:
        stored_name(using, f"{OUTSIDE}{alias}")
    except CommandError:
        near = get_close_matches(alias, subscriptions(), n=1)
        there = f"did you mean {near[0]!r}?" if near else f"there are: {', '.join(subscriptions()) or 'none'}."
        return f"is no destination; {there}"
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
