"""`duebox events routes`: who receives an event, and why."""

from __future__ import annotations

import json
from argparse import ArgumentTypeError
from collections.abc import Iterator
from difflib import get_close_matches
from typing import Any, NamedTuple

from django.core.exceptions import ImproperlyConfigured
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import DatabaseError

from duebox.conf import conf
from duebox.contracts import types
from duebox.destinations.envelope import as_dict
from duebox.destinations.known_names import serves_endpoints
from duebox.destinations.routes import Route
from duebox.destinations.subscription import Routed, Subscription
from duebox.entrypoints.terminal import aligned
from duebox.exceptions import NotReady
from duebox.fact import FactRow
from duebox.store import webhooks
from duebox.store.event_types import PUBLIC
from duebox.subscribers import Subscriber, receivers_of, subscribers


class Reason(NamedTuple):
    subscriber: str
    receives: str
    """yes, no, or perhaps, where only an event's data can tell."""
    why: str
    type: str
    """Of the event that it receives: the one that was asked about, or its public twin."""
    endpoints: int | None = None
    """How many enabled ones want it, where it goes to webhooks."""


def add_routes_options(parser: CommandParser) -> None:
    parser.add_argument("type", nargs="?", help="an event type, as in order.paid; none lists all routes")
    parser.add_argument("--data", type=_object, metavar="JSON", help="decide for an event with these data")
    parser.add_argument("--organization", default="", help="… of this organization; count only its endpoints")
    parser.add_argument("--about", default=":", metavar="TYPE:ID", help="… about this entity")
    parser.add_argument("--all", action="store_true", help="also say who does not receive it, and why not")
    parser.add_argument("--json", action="store_true", help="print JSON, one subscriber a line")
    parser.add_argument("--database", metavar="ALIAS", help="the alias whose endpoints to count (DUEBOX['DATABASE'])")


def routes(command: BaseCommand, options: dict[str, Any]) -> None:
    """Show who receives an event, and why."""
    name = options["type"]
    if name is None:
        _list_routes(command, options)
        return
    _refuse_unknown(name)
    reasons = [each for each in _reasons(name, options) if options["all"] or each.receives != "no"]
    if options["json"]:
        for reason in reasons:
            command.stdout.write(json.dumps(reason._asdict()))
        return
    if not reasons:
        command.stdout.write(f"Nobody receives {name}; add a handler with @duebox.on, or a route to DUEBOX['ROUTES'].")
    else:
        for line in aligned(("subscriber", "receives", "because"), [reason[:3] for reason in reasons]):
            command.stdout.write(line)


def _list_routes(command: BaseCommand, options: dict[str, Any]) -> None:
    names = sorted({each.name for each in types.declared()})
    rows = []
    for each in subscribers():
        matches = [route.match for route in each.routes] if isinstance(each, Routed) else [each.pattern]
        count = sum(each.receives(name) for name in names)
        rows += [(each.name, str(match), str(count)) for match in matches]
    if options["json"]:
        for subscriber, match, many in rows:
            command.stdout.write(json.dumps({"subscriber": subscriber, "match": match, "types": int(many)}))
        return
    lines = aligned(("subscriber", "takes", "declared types"), rows) if rows else ["There are no subscribers."]
    for line in lines:
        command.stdout.write(line)


def _reasons(name: str, options: dict[str, Any]) -> Iterator[Reason]:
    yield from _of_type(name, options["data"], options)
    kind = types.latest(name)
    if kind is None or kind.twin is None:
        return
    shown = kind.project(options["data"]) if options["data"] is not None else None
    for reason in _of_type(kind.twin.name, shown, options):
        # Who does not receive it is said of the event that was asked about.
        if reason.receives != "no":
            yield reason._replace(why=f"as {kind.twin.name}: {reason.why}")


def _of_type(name: str, data: dict[str, Any] | None, options: dict[str, Any]) -> Iterator[Reason]:
    row = _row(name, data, options)
    receivers = receivers_of(name)
    for each in subscribers():
        if isinstance(each, Routed):
            yield _with_endpoints(each, _of_routes(each, name, row), options)
        elif each in receivers:
            like = "its type" if each.pattern == name else f"its type is like {each.pattern!r}"
            yield Reason(each.name, "yes", like, name)
        else:
            yield Reason(each.name, "no", f"its type is not like {each.pattern!r}", name)


def _of_routes(each: Routed, name: str, row: FactRow | None) -> Reason:
    found = [route for route in each.routes if route.may_take(name)]
    if not found:
        told = " or ".join(repr(route.match) for route in each.routes)
        why = f"no route of it takes the type: {told}" if told else "no route leads to it"
        return Reason(each.name, "no", why, name)
    for route in found:
        if route.pattern is None:
            return Reason(each.name, "yes", route.why(name), name)
    if row is None:
        return Reason(each.name, "perhaps", f"{found[0].why(name)}; pass --data to see", name)
    return _by_pattern(each, found, row)


def _by_pattern(each: Subscriber, found: list[Route], row: FactRow) -> Reason:
    event = as_dict(row)
    takes = [route for route in found if route.takes(row)]
    [pattern] = [route.pattern for route in (takes or found)[:1]]
    assert pattern is not None
    return Reason(each.name, "yes" if takes else "no", pattern.why(event), row.type)


def _with_endpoints(each: Routed, reason: Reason, options: dict[str, Any]) -> Reason:
    """Whoever spreads an event among endpoints takes it for them; what matters is how many want it."""
    if isinstance(each, Subscription) or not serves_endpoints(each.alias):
        return reason
    if not reason.type.startswith(PUBLIC):
        return reason._replace(receives="no", why="webhooks take public events only")
    if reason.receives == "no":
        return reason
    organization = options["organization"] or None
    try:
        using = options["database"] or conf().DATABASE
        many = webhooks.wanting(using, reason.type.removeprefix(PUBLIC), organization)
    except (DatabaseError, ImproperlyConfigured, NotReady):
        return reason._replace(why=f"{reason.why}; how many endpoints want it cannot be said without a database")
    whose = f" of {organization!r}" if organization else ""
    told = f"{many} enabled endpoint{whose} wants it" if many == 1 else f"{many} enabled endpoints{whose} want it"
    return reason._replace(why=f"{reason.why}; {told}", endpoints=many)


def _row(name: str, data: dict[str, Any] | None, options: dict[str, Any]) -> FactRow | None:
    """The event that was described, or None where only its type is known."""
    if data is None:
        return None
    kind = types.latest(name)
    aggregate_type, _, aggregate_id = options["about"].partition(":")
    return FactRow(
        id="00000000-0000-7000-8000-000000000000", type=name, version=kind.version if kind else 1, occurred=0.0,
        aggregate_type=aggregate_type, aggregate_id=aggregate_id, organization=options["organization"], correlation="",
        causation=None, actor=None, producer="", key=None, data=json.dumps(data), metadata="{}",
    )  # fmt: skip


def _refuse_unknown(name: str) -> None:
    known = {each.name for each in types.declared()}
    if not known or name in known or name.startswith("duebox.") or _is_named(name):
        return
    near = get_close_matches(name, known, n=1)
    hint = f"did you mean {near[0]!r}?" if near else "`duebox events routes` lists who receives what."
    raise CommandError(f"Nobody declared {name!r}; {hint}")


def _is_named(name: str) -> bool:
    """Somebody takes it by its type, declared or not; a pattern on the data alone may take anything."""
    return any(not each.picky for each in receivers_of(name))


def _object(text: str) -> dict[str, Any]:
    try:
        data = json.loads(text)
    except ValueError as error:
        raise ArgumentTypeError(f"{text} is not JSON ({error}); write it as in '{{\"total\": 3}}'") from None
    if not isinstance(data, dict):
        raise ArgumentTypeError(f"{text} is not a JSON object; write it as in '{{\"total\": 3}}'")
    return data
