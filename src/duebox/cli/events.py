"""`duebox events`: generate documents of event types, explain the routes of an event, and replay stored events."""

from __future__ import annotations

import json
from argparse import ArgumentTypeError
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

from django.core.exceptions import ImproperlyConfigured
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import DatabaseError

from duebox.cli.audit import instant
from duebox.cli.deliveries import per_second
from duebox.cli.output import DRY_RUN, Group, Options, Verb, aligned, operator, progress
from duebox.conf import conf
from duebox.contracts import event_types
from duebox.contracts.asyncapi import asyncapi
from duebox.contracts.documents import Folder, Report, pages, public_pages
from duebox.contracts.event_types import EventType, declared
from duebox.destinations.envelope import as_dict
from duebox.destinations.names import serves_endpoints
from duebox.destinations.registry import Routed, Subscription
from duebox.destinations.routes import Route
from duebox.events.fact import FactRow
from duebox.events.subscribers import Subscriber, receivers_of, subscribers
from duebox.exceptions import InvalidContract, NotReady, did_you_mean
from duebox.store import destinations
from duebox.store import replay as store
from duebox.store.replay import Manner, Replayed
from duebox.store.targets import PUBLIC

NO_TYPES = "No event types are declared; put @duebox.event above a class in events.py of an app."
NO_PUBLIC_TYPES = "No event type is public; declare one with public={...}."


def add_documents_options(parser: CommandParser) -> None:
    parser.add_argument("--out", metavar="FOLDER", help="where the pages go, as in docs/events")
    parser.add_argument("--asyncapi", metavar="FILE", help="where an AsyncAPI document goes, as JSON")
    parser.add_argument("--public", action="store_true", help="only public events, for external readers")
    parser.add_argument("--check", action="store_true", help="write nothing; fail if something is out of date")
    parser.add_argument("--json", action="store_true", help="print JSON")


def documents(command: BaseCommand, options: dict[str, Any]) -> None:
    """Write documents of the event types, or check that they are up to date."""
    if not (options["out"] or options["asyncapi"]):
        raise CommandError(
            "No target is given: pass --out FOLDER for pages, --asyncapi FILE for an AsyncAPI document, or both."
        )
    kinds = _kinds(public=options["public"])
    reports = [each for each in (_pages(kinds, options), _asyncapi(kinds, options)) if each is not None]
    if options["json"]:
        command.stdout.write(json.dumps(_as_dict(reports)))
    else:
        command.stdout.write("\n".join(_summary(reports, options["check"])))
    if options["check"] and not all(report.in_step for _, report in reports):
        raise CommandError("The documents are out of date; run it again without --check.")


def _kinds(*, public: bool) -> tuple[EventType, ...]:
    kinds = declared()
    if not kinds:
        raise CommandError(NO_TYPES)
    if public and not (kinds := tuple(kind for kind in kinds if kind.twin_of)):
        raise CommandError(NO_PUBLIC_TYPES)
    return kinds


Written = tuple[Path, Report]


def _pages(kinds: tuple[EventType, ...], options: dict[str, Any]) -> Written | None:
    if not options["out"]:
        return None
    place = Path(options["out"])
    if options["public"]:
        return place, _settled(Folder(place, public_pages(kinds)), options["check"])
    return place, _settled(Folder(place, pages(kinds), inner=["public"]), options["check"])


def _settled(folder: Folder, only_check: bool) -> Report:
    try:
        return folder.compared() if only_check else folder.write()
    except InvalidContract as error:
        raise CommandError(str(error)) from error


def _asyncapi(kinds: tuple[EventType, ...], options: dict[str, Any]) -> Written | None:
    if not options["asyncapi"]:
        return None
    path = Path(options["asyncapi"])
    service = conf().PRODUCER
    title = f"{'Public events' if options['public'] else 'Events'}{f' of {service}' if service else ''}"
    text = json.dumps(asyncapi(kinds, title=title), indent=2, ensure_ascii=False) + "\n"
    old = path.read_text(encoding="utf-8") if path.exists() else None
    if not options["check"] and old != text:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return path.parent, Report(
        missing=(path.name,) if old is None else (),
        changed=(path.name,) if old not in (None, text) else (),
        unchanged=int(old == text),
    )


def _as_dict(reports: list[Written]) -> dict[str, Any]:
    def of(word: str) -> list[str]:
        return [str(place / name) for place, report in reports for name in getattr(report, word)]

    counts = {"unchanged": sum(report.unchanged for _, report in reports)}
    return {**{word: of(word) for word in ("missing", "changed", "stale", "foreign")}, **counts}


def _summary(reports: list[Written], only_check: bool) -> list[str]:
    words = {"missing": "written", "changed": "written again", "stale": "removed", "foreign": "not changed"}
    if only_check:
        words = {
            "missing": "missing",
            "changed": "out of date",
            "stale": "of a removed type",
            "foreign": "not ours",
        }
    found = _as_dict(reports)
    lines = [f"{meaning}: {path}" for word, meaning in words.items() for path in found[word]]
    return (
        [*lines, f"{found['unchanged']} up to date already."]
        if lines
        else [f"All {found['unchanged']} are up to date."]
    )


class Reason(NamedTuple):
    subscriber: str
    receives: str
    """yes, no, or perhaps if it depends on the data of an event."""
    why: str
    type: str
    """The type that it receives: the requested one, or that of its public event."""
    endpoints: int | None = None
    """For webhooks, how many enabled endpoints subscribe to it."""


def add_routes_options(parser: CommandParser) -> None:
    parser.add_argument("type", nargs="?", help="an event type, as in order.paid; none lists all routes")
    parser.add_argument("--data", type=_object, metavar="JSON", help="decide for an event with these data")
    parser.add_argument("--organization", default="", help="… of this organization; count only its endpoints")
    parser.add_argument("--about", default=":", metavar="TYPE:ID", help="… about this entity")
    parser.add_argument("--all", action="store_true", help="also list subscribers that do not receive it, and why")
    parser.add_argument("--json", action="store_true", help="print JSON, one subscriber a line")
    parser.add_argument("--database", metavar="ALIAS", help="the alias whose endpoints to count (DUEBOX['DATABASE'])")


def routes(command: BaseCommand, options: dict[str, Any]) -> None:
    """Show who receives an event, and why."""
    name = options["type"]
    if name is None:
        _list_routes(command, options)
        return
    _refuse_unknown(name)
    reasons = [each for each in reasons_of(name, options) if options["all"] or each.receives != "no"]
    if options["json"]:
        for reason in reasons:
            command.stdout.write(json.dumps(reason._asdict()))
        return
    if not reasons:
        command.stdout.write(
            f"No subscriber receives {name}; add a handler with @duebox.on, or a route to DUEBOX['ROUTES']."
        )
    else:
        for line in aligned(("subscriber", "receives", "because"), [reason[:3] for reason in reasons]):
            command.stdout.write(line)


def _list_routes(command: BaseCommand, options: dict[str, Any]) -> None:
    names = sorted({each.name for each in event_types.declared()})
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


def reasons_of(name: str, options: dict[str, Any]) -> Iterator[Reason]:
    yield from _of_type(name, options["data"], options)
    kind = event_types.latest(name)
    if kind is None or kind.public_event is None:
        return
    shown = kind.project(options["data"]) if options["data"] is not None else None
    for reason in _of_type(kind.public_event.name, shown, options):
        # Subscribers that do not receive it are listed only for the requested type.
        if reason.receives != "no":
            yield reason._replace(why=f"as {kind.public_event.name}: {reason.why}")


def _of_type(name: str, data: dict[str, Any] | None, options: dict[str, Any]) -> Iterator[Reason]:
    row = _row(name, data, options)
    receivers = receivers_of(name)
    for each in subscribers():
        if isinstance(each, Routed):
            yield _with_endpoints(each, _of_routes(each, name, row), options)
        elif each in receivers:
            like = "its type" if each.pattern == name else f"its type matches {each.pattern!r}"
            yield Reason(each.name, "yes", like, name)
        else:
            yield Reason(each.name, "no", f"its type does not match {each.pattern!r}", name)


def _of_routes(each: Routed, name: str, row: FactRow | None) -> Reason:
    found = [route for route in each.routes if route.may_take(name)]
    if not found:
        matches = " or ".join(repr(route.match) for route in each.routes)
        why = f"none of its routes matches the type: {matches}" if matches else "it has no route"
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
    """A destination with endpoints receives an event for them; add how many endpoints subscribe to it."""
    if isinstance(each, Subscription) or not serves_endpoints(each.alias):
        return reason
    if not reason.type.startswith(PUBLIC):
        return reason._replace(receives="no", why="webhooks receive public events only")
    if reason.receives == "no":
        return reason
    organization = options["organization"] or None
    try:
        using = options["database"] or conf().DATABASE
        many = destinations.count_endpoints_for(using, reason.type.removeprefix(PUBLIC), organization)
    except (DatabaseError, ImproperlyConfigured, NotReady):
        return reason._replace(why=f"{reason.why}; the number of endpoints is unknown without a database")
    whose = f" of {organization!r}" if organization else ""
    count = (
        f"{many} enabled endpoint{whose} subscribes to it"
        if many == 1
        else f"{many} enabled endpoints{whose} subscribe to it"
    )
    return reason._replace(why=f"{reason.why}; {count}", endpoints=many)


def _row(name: str, data: dict[str, Any] | None, options: dict[str, Any]) -> FactRow | None:
    """The event that the options describe, or None if only its type is known."""
    if data is None:
        return None
    kind = event_types.latest(name)
    aggregate_type, _, aggregate_id = options["about"].partition(":")
    return FactRow(
        id="00000000-0000-7000-8000-000000000000", type=name, version=kind.version if kind else 1, occurred=0.0,
        aggregate_type=aggregate_type, aggregate_id=aggregate_id, organization=options["organization"], correlation="",
        causation=None, actor=None, producer="", key=None, data=json.dumps(data), metadata="{}",
    )  # fmt: skip


def _refuse_unknown(name: str) -> None:
    known = {each.name for each in event_types.declared()}
    if not known or name in known or name.startswith("duebox.") or _is_named(name):
        return
    hint = did_you_mean(name, known) or "`duebox events routes` lists all subscribers."
    raise CommandError(f"The event type {name!r} is not declared; {hint}")


def _is_named(name: str) -> bool:
    """Whether a subscriber receives it by its type, declared or not; a pattern on the data alone may match anything."""
    return any(not each.picky for each in receivers_of(name))


def _object(text: str) -> dict[str, Any]:
    try:
        data = json.loads(text)
    except ValueError as error:
        raise ArgumentTypeError(f"{text} is not JSON ({error}); write it as in '{{\"total\": 3}}'") from None
    if not isinstance(data, dict):
        raise ArgumentTypeError(f"{text} is not a JSON object; write it as in '{{\"total\": 3}}'")
    return data


Replay = Callable[[Options, Manner], Replayed]


def resend(options: Options, manner: Manner) -> Replayed:
    """Send one event to one subscriber again, whatever the earlier result."""
    store.resend(options["event"], to=options["to"], manner=manner)
    return Replayed(added=1)


def recover(options: Options, manner: Manner) -> Replayed:
    """Send failed events again: dead and parked deliveries, and events that an endpoint missed while it was
    disabled."""
    return store.recover(to=options["to"], since=_moment(options, "since"), manner=manner)


def missing(options: Options, manner: Manner) -> Replayed:
    """Send events that would go there today and never did, for a new handler, destination or endpoint."""
    return store.missing(
        to=options["to"], since=_moment(options, "since"), until=instant(options, "until"), type=options["type"],
        organization=options["organization"], manner=manner,
    )  # fmt: skip


def bulk(options: Options, manner: Manner) -> Replayed:
    """Send every event of a period again that would go there today."""
    return store.bulk(
        to=options["to"], since=_moment(options, "since"), until=_moment(options, "until"), type=options["type"],
        organization=options["organization"], manner=manner,
    )  # fmt: skip


def _report(command: BaseCommand, options: Options, done: Replayed, replay: Replay) -> None:
    if options["json"]:
        command.stdout.write(json.dumps({**done.as_dict(), "dry_run": options["dry_run"]}))
        return
    would = "would be " if options["dry_run"] else ""
    again = f", {done.retried} {would}retried" if replay is recover else ""
    command.stdout.write(f"{done.added} {would}sent to {options['to']}{again}.")
    if done.still_open:
        command.stdout.write(f"{done.still_open} skipped: one of their deliveries is still open, due or dead.")
    if options["dry_run"]:
        command.stdout.write(DRY_RUN)


def _moment(options: Options, name: str) -> datetime:
    found = instant(options, name)
    if found is None:
        raise CommandError(f"--{name} is empty; pass a date or an ISO time.")
    return found


def _add_event(parser: CommandParser) -> None:
    parser.add_argument("event", metavar="EVENT_ID", help="the id of the event")


def _add_since(parser: CommandParser) -> None:
    text = "from this date or ISO time on; local without an offset"
    parser.add_argument("--since", required=True, metavar="MOMENT", help=text)
    parser.add_argument("--rate", type=per_second, metavar="N", help="N deliveries per second become due (all at once)")


def _add_missing(parser: CommandParser) -> None:
    _add_since(parser)
    _add_until(parser, required=False)


def _add_bulk(parser: CommandParser) -> None:
    _add_since(parser)
    _add_until(parser, required=True)


def _add_until(parser: CommandParser, *, required: bool) -> None:
    parser.add_argument("--until", required=required, metavar="MOMENT", help="before this one")
    parser.add_argument("--type", metavar="PATTERN", help="of this event type, or of a pattern as in 'order.*'")
    parser.add_argument("--organization", metavar="ID", help="of this organization")


def _verb(replay: Replay, add_options: Callable[[CommandParser], None]) -> Verb:
    def run(command: BaseCommand, options: Options) -> None:
        with progress(command, replay.__name__, quiet=options["json"]) as advance:
            manner = Manner(
                by=operator(), rate=options.get("rate"), dry_run=options["dry_run"],
                using=options["database"] or conf().DATABASE, progress=advance,
            )  # fmt: skip
            done = replay(options, manner)
        _report(command, options, done, replay)

    def add(parser: CommandParser) -> None:
        add_options(parser)
        parser.add_argument("--to", required=True, metavar="NAME", help="a handler, a destination, or an endpoint")
        parser.add_argument("--dry-run", action="store_true", help="only print how many")
        parser.add_argument("--json", action="store_true", help="print JSON")
        parser.add_argument("--database", metavar="ALIAS", help="the alias whose tables to use (DUEBOX['DATABASE'])")

    run.__doc__ = replay.__doc__
    return Verb(run, add)


REPLAY = Group(
    "Replay",
    "Send stored events again: one, failed ones, missing ones, or all of a period.",
    {
        "resend": _verb(resend, _add_event),
        "recover": _verb(recover, _add_since),
        "missing": _verb(missing, _add_missing),
        "bulk": _verb(bulk, _add_bulk),
    },
)
