"""`duebox deliveries`: list, inspect, retry, park and discard deliveries."""

from __future__ import annotations

import argparse
import json
from collections import Counter
from shlex import quote
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from duebox import deliveries
from duebox.cli.audit import instant
from duebox.cli.output import DRY_RUN, Options, Verb, aligned, operator, progress, readable
from duebox.cli.output import Group as Verbs
from duebox.cli.preview import entity
from duebox.cli.worker import positive
from duebox.conf import conf
from duebox.deliveries import FAILED, STATES, Blocked, Done, Filters, Group, OpenDelivery
from duebox.events.identities import printable

_SHOWN = 5
_ERROR_LIMIT = 120
"""The maximum length of an error in a table."""


def show_all(command: BaseCommand, options: Options) -> None:
    """List deliveries in any state."""
    limit = options["limit"]
    found = deliveries.find(limit=limit + 1, using=options["database"], **_filters(options))
    if options["json"]:
        for each in found[:limit]:
            command.stdout.write(json.dumps(each.as_dict()))
        return
    head = ("id", "state", "event", "about", "to", "due or dead, utc", "failed", "error")
    for line in aligned(head, [_cells(each) for each in found[:limit]]) if found else ["No deliveries."]:
        command.stdout.write(line)
    if len(found) > limit:
        command.stdout.write(f"Only the first {limit}; --limit shows more.")
    if any(each.orphaned for each in found[:limit]):
        command.stdout.write(
            "Orphaned: this code has no such handler or destination; `duebox status` shows the repair."
        )


def show(command: BaseCommand, options: Options) -> None:
    """Show a delivery: its event, its state, and its history with the errors."""
    found = deliveries.get(options["id"], using=options["database"])
    if found is None:
        raise CommandError(
            f"No delivery has the id {options['id']}; it was delivered or discarded, or never existed. "
            "`duebox deliveries list` lists those that are stored."
        )
    history = found.history(options["database"] or conf().DATABASE)
    if options["json"]:
        command.stdout.write(json.dumps({**found.as_dict(), "history": history}))
        return
    for line in _page(found, history):
        command.stdout.write(line)


def groups(command: BaseCommand, options: Options) -> None:
    """List dead letters by event type, receiver and cause. The largest group comes first."""
    found = deliveries.groups(limit=options["limit"], using=options["database"], **_filters(options))
    if options["json"]:
        for group in found:
            command.stdout.write(json.dumps(group.as_dict()))
        return
    head = ("count", "event", "to", "first, utc", "last, utc", "sample", "group", "error")
    parked = options["state"] == ["parked"]
    nothing = "No parked deliveries." if parked else "No dead letters."
    for line in aligned(head, [_group_cells(group) for group in found]) if found else [nothing]:
        command.stdout.write(line)
    if found:
        command.stdout.write(f"Retry a group: manage.py duebox deliveries retry --group GROUP{_narrowed(options)}")


def retry(command: BaseCommand, options: Options) -> None:
    """Make deliveries due now: dead, parked, retrying or scheduled ones. Needs ids, a filter, or --all."""
    filters = _chosen(options, f"; without --state, those that are {' or '.join(FAILED)} are meant")
    with progress(command, "retried", quiet=options["json"]) as advance:
        done = deliveries.retry(
            options["id"], by=operator(), rate=options["rate"], limit=options["limit"], dry_run=options["dry_run"],
            using=options["database"], progress=advance, **filters,
        )  # fmt: skip
    _report(command, options, done, "retried", "due now")


def park(command: BaseCommand, options: Options) -> None:
    """Park deliveries, with a note. No worker claims them; one in an ordered stream blocks those behind it."""
    filters = _chosen(options, "; without --state, dead ones are meant")
    with progress(command, "parked", quiet=options["json"]) as advance:
        done = deliveries.park(
            options["id"], note=options["note"], by=operator(), limit=options["limit"], dry_run=options["dry_run"],
            using=options["database"], progress=advance, **filters,
        )  # fmt: skip
    _report(command, options, done, "parked", "parked")


def discard(command: BaseCommand, options: Options) -> None:
    """Discard deliveries for good. The event and the history stay; a blocked stream continues."""
    filters = _chosen(options, "; without --state, dead ones are meant")
    with progress(command, "discarded", quiet=options["json"]) as advance:
        done = deliveries.discard(
            options["id"], reason=options["reason"], by=operator(), limit=options["limit"],
            dry_run=options["dry_run"], using=options["database"], progress=advance, **filters,
        )  # fmt: skip
    _report(command, options, done, "discarded", "discarded")


def blocked(command: BaseCommand, options: Options) -> None:
    """List ordered streams that are blocked by their first delivery. Those with the most behind it come first."""
    found = deliveries.blocked(
        handler=options["handler"], destination=options["destination"], limit=options["limit"],
        using=options["database"],
    )  # fmt: skip
    if options["json"]:
        for each in found:
            command.stdout.write(json.dumps(each.as_dict()))
        return
    head = ("waiting", "to", "stream", "head", "why", "since, utc")
    for line in aligned(head, [_blocked_cells(each) for each in found]) if found else ["No stream is blocked."]:
        command.stdout.write(line)
    if found:
        command.stdout.write("To unblock them: manage.py duebox deliveries retry HEAD, or deliveries discard HEAD")


def per_second(text: str) -> float:
    try:
        rate = float(text)
    except ValueError:
        rate = 0.0
    if not 0 < rate <= 1e6:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number above 0")
    return rate


def _report(command: BaseCommand, options: Options, done: Done, word: str, said: str) -> None:
    """Report what was changed, what was skipped and why. A delivery that was named by its id and skipped is an
    error."""
    if options["json"]:
        left = [{"id": id, "why": why} for id, why in done.left.items()]
        command.stdout.write(json.dumps({word: done.ids, "left": left, "dry_run": options["dry_run"]}))
    else:
        command.stdout.write(f"{len(done.ids):,} {'would be ' if options['dry_run'] else ''}{said}.")
        if not options["id"]:
            for why, many in Counter(done.left.values()).most_common(_SHOWN):
                command.stdout.write(f"{many:,} left: {why}.")
            if (rest := len(set(done.left.values())) - _SHOWN) > 0:
                command.stdout.write(f"And more are left for {rest} other reasons; --json names them all.")
        if options["dry_run"]:
            _show_one(command, options, done.ids)
    if options["id"] and done.left:
        reasons = "\n  ".join(f"{id}: {why}" for id, why in done.left.items())
        raise CommandError(f"{len(done.left):,} left as {'it is' if len(done.left) == 1 else 'they are'}:\n  {reasons}")


def _show_one(command: BaseCommand, options: Options, ids: list[int]) -> None:
    sample = deliveries.get(ids[0], using=options["database"]) if ids else None
    if sample is not None:
        error = f": {printable(sample.error_line)}" if sample.error_line else ""
        command.stdout.write(f"The first of them is {sample.id}, {sample.event_type} to {sample.subscriber}{error}")
    command.stdout.write(DRY_RUN)


def _page(found: OpenDelivery, history: list[dict[str, Any]]) -> list[str]:
    lines = [f"{found.event_type} ({found.event_id}) to {found.subscriber}", f"state: {_state(found)}"]
    facts = {
        "about": ":".join(found.about or ()), "organization": found.organization, "correlation": found.correlation_id,
        "stream": found.stream or "", "group": found.group,
        "expires": f"{readable(found.expires_at)} UTC" if found.expires_at else "",
    }  # fmt: skip
    lines += [f"{name}: {printable(value)}" for name, value in facts.items() if value]
    lines.append(f"data: {json.dumps(found.data)}")
    for each in history:
        took = f", {each['took_ms']:.0f} ms" if each["took_ms"] is not None else ""
        number = f"attempt {each['number']}: " if each["number"] else ""
        lines.append(f"{each['settled_at']}  {number}{each['outcome']}{took}")
        lines += [f"    {printable(text)}" for text in each["note"].splitlines()]
    if found.orphaned:
        lines.append(f"This code has no handler or destination {found.subscriber!r}; `duebox status` shows the repair.")
    elif found.state in ("dead", "parked", "retrying", "scheduled"):
        lines.append(f"Retry it now: manage.py duebox deliveries retry {found.id}")
    return lines


def _state(found: OpenDelivery) -> str:
    until = f", due {readable(found.due_at.replace(microsecond=0))} UTC"
    where = f" on {found.worker}" if found.worker else ""
    also = ", orphaned" if found.orphaned else ""
    if found.state == "running":
        return f"running{where or ', and its worker is lost'}"
    if found.state in ("dead", "parked"):
        return f"{found.state}{also}"
    failed = f", failed {found.attempt} time{'s' if found.attempt != 1 else ''}" if found.attempt else ""
    return f"{found.state}{failed}{until}{also}"


def _cells(each: OpenDelivery) -> tuple[str, ...]:
    moment = readable((each.died_at or each.due_at).replace(microsecond=0))
    state = f"{each.state}, orphaned" if each.orphaned else each.state
    failed = str(each.attempt) if each.attempt else ""
    error = _short(printable(" — ".join(filter(None, (each.error_line, each.note)))))
    about = printable(":".join(each.about or ()))
    return str(each.id), state, each.event_type, about, each.subscriber, moment, failed, error


def _group_cells(group: Group) -> tuple[str, ...]:
    first, last = (readable(each.replace(microsecond=0)) if each else "" for each in (group.first_at, group.last_at))
    sample, error = str(group.sample), _short(printable(group.error))
    return str(group.count), group.event_type, group.subscriber, first, last, sample, group.id, error


def _blocked_cells(each: Blocked) -> tuple[str, ...]:
    until = f", until {readable(each.due_at.replace(microsecond=0))}" if each.status == "pending" else ""
    since = readable(each.since.replace(microsecond=0))
    waiting = f"{each.waiting:,}+" if each.more_wait else str(each.waiting)
    return waiting, each.subscriber, printable(each.stream), str(each.head), f"{each.why}{until}", since


def _short(text: str) -> str:
    return text if len(text) <= _ERROR_LIMIT else f"{text[: _ERROR_LIMIT - 1]}…"


def _narrowed(options: Options) -> str:
    """The options that repeat the filters: the listed count may be a part of a group."""
    asked = [f" --{name} {quote(options[name])}" for name in ("organization", "since") if options[name]]
    return "".join(asked) + (" --state parked" if options["state"] == ["parked"] else "")


def _filters(options: Options) -> Filters:
    found = Filters(since=instant(options, "since"))
    for name in ("state", "type", "handler", "destination", "group", "organization", "correlation_id", "about"):
        if options.get(name):
            found[name] = options[name]
    return found


def _chosen(options: Options, default: str) -> Filters:
    filters = _filters(options)
    given = any(value is not None for value in filters.values())
    if options.get("all"):
        if options["id"] or given:
            raise CommandError("--all means every delivery that failed; leave out the ids and the other filters.")
        return Filters(state=FAILED)
    if not (options["id"] or given):
        every = ", or --all" if "all" in options else ""
        raise CommandError(
            f"Say which ones: ids, --state, --type, --handler, --destination, --group, --organization, "
            f"--correlation-id, --about, --since{every}{default}. `duebox deliveries list` lists them."
        )
    return filters


def _add_filters(parser: CommandParser, *, states: tuple[str, ...] = STATES) -> None:
    parser.add_argument(
        "--state",
        action="append",
        choices=states,
        metavar="STATE",
        help=f"in this state; repeatable: {', '.join(states)}",
    )
    parser.add_argument("--type", metavar="EVENT", help="of this event type, or of a pattern as in 'order.*'")
    _add_receiver(parser)
    parser.add_argument("--group", metavar="GROUP", help="of this group, as `duebox deliveries groups` names it")
    parser.add_argument("--organization", metavar="ID", help="of events of this organization")
    parser.add_argument(
        "--since", metavar="MOMENT", help="dead, or else due, since this date or ISO time; local without an offset"
    )


def _add_receiver(parser: CommandParser) -> None:
    receiver = parser.add_mutually_exclusive_group()
    receiver.add_argument("--handler", metavar="NAME", help="to this handler")
    receiver.add_argument(
        "--destination", metavar="ALIAS", help="to this destination or endpoint: bus, to:bus, hooks/<id>"
    )


def _add_of_event(parser: CommandParser) -> None:
    parser.add_argument("--correlation-id", metavar="ID", help="of events with this correlation id")
    parser.add_argument("--about", type=entity, metavar="TYPE:ID", help="of events about this entity, as in order:42")


def _add_common(parser: CommandParser, json: str) -> None:
    parser.add_argument("--json", action="store_true", help=json)
    parser.add_argument("--database", metavar="ALIAS", help="the alias whose tables to use (DUEBOX['DATABASE'])")


def _add_list_options(parser: CommandParser) -> None:
    _add_filters(parser)
    _add_of_event(parser)
    parser.add_argument("--limit", type=positive, default=50, metavar="N", help="how many to list (50)")
    _add_common(parser, "print JSON, one delivery a line")


def _add_show_options(parser: CommandParser) -> None:
    parser.add_argument("id", type=int, help="the id of the delivery")
    _add_common(parser, "print JSON")


def _add_groups_options(parser: CommandParser) -> None:
    _add_filters(parser, states=("dead", "parked"))
    parser.add_argument("--limit", type=positive, default=50, metavar="N", help="how many to list (50)")
    _add_common(parser, "print JSON, one group a line")


def _add_action_options(parser: CommandParser) -> None:
    parser.add_argument("id", nargs="*", type=int, help="deliveries by id")
    _add_filters(parser)
    _add_of_event(parser)
    parser.add_argument("--limit", type=positive, metavar="N", help="no more than this, the oldest first")
    parser.add_argument("--dry-run", action="store_true", help="only say how many, and show one")
    _add_common(parser, "print JSON")


def _add_retry_options(parser: CommandParser) -> None:
    _add_action_options(parser)
    parser.add_argument("--all", action="store_true", help="every delivery that is dead or retrying")
    parser.add_argument("--rate", type=per_second, metavar="N", help="N deliveries per second become due (all at once)")


def _add_park_options(parser: CommandParser) -> None:
    _add_action_options(parser)
    parser.add_argument("--note", required=True, help="why, for others who find it")


def _add_discard_options(parser: CommandParser) -> None:
    _add_action_options(parser)
    parser.add_argument("--reason", required=True, help="why, for the history")


def _add_blocked_options(parser: CommandParser) -> None:
    _add_receiver(parser)
    parser.add_argument("--limit", type=positive, default=50, metavar="N", help="how many to list (50)")
    _add_common(parser, "print JSON, one stream a line")


DELIVERIES = Verbs(
    "Deliveries",
    "Look at deliveries, each of one event to one handler or destination, and retry, park or discard them.",
    {
        "list": Verb(show_all, _add_list_options),
        "show": Verb(show, _add_show_options),
        "groups": Verb(groups, _add_groups_options),
        "retry": Verb(retry, _add_retry_options),
        "park": Verb(park, _add_park_options),
        "discard": Verb(discard, _add_discard_options),
        "blocked": Verb(blocked, _add_blocked_options),
    },
)
