"""`duebox show`, `duebox explain` and `duebox watch`: stored data, the history in sentences, and live attempts."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from duebox.cli.deliveries import per_second
from duebox.cli.output import aligned
from duebox.cli.worker import positive
from duebox.dead_letters.fingerprint import telling_line
from duebox.events.identities import printable
from duebox.observe.explain import Explanation, Line
from duebox.observe.explain import explain as explained
from duebox.observe.find import KINDS, find
from duebox.observe.lines import local, span
from duebox.observe.records import DAYS, load
from duebox.observe.show import facts
from duebox.observe.watch import INTERVAL_SECONDS, Sight
from duebox.observe.watch import watch as attempts
from duebox.schedules.schedule import project_zone
from duebox.when import local_time

_ERROR_LIMIT = 120


def add_target_options(parser: CommandParser) -> None:
    """The arguments that `show` and `explain` share."""
    parser.add_argument(
        "id", metavar="ID",
        help="the id of an event or delivery, the key or id of a schedule, an entity such as clinic.appointment:42, or "
        "a correlation id",
    )  # fmt: skip
    parser.add_argument("--as", dest="kind", choices=KINDS, metavar="KIND", help=f"only as one of: {', '.join(KINDS)}")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--database", metavar="ALIAS", help="the alias whose tables to look at (DUEBOX['DATABASE'])")


def add_show_options(parser: CommandParser) -> None:
    add_target_options(parser)
    parser.add_argument("--payload", action="store_true", help="also the data of events, personal data masked")


def show(command: BaseCommand, options: dict[str, Any]) -> None:
    """Show an event, a delivery, a schedule, an entity or a correlation id. It finds out which of them is meant."""
    using = options["database"]
    found = facts(load(find(options["id"], kind=options["kind"], using=using), using=using), payload=options["payload"])
    if options["json"]:
        command.stdout.write(json.dumps(found))
        return
    for line in _facts_page(found):
        command.stdout.write(printable(line))


def _facts_page(found: Mapping[str, Any]) -> Iterator[str]:
    yield f"{'correlation id' if found['kind'] == 'correlation' else found['kind']} {found['id']}"
    whole = {"event": "events", "delivery": "events", "schedule": "schedules"}.get(found["kind"], "")
    for each in found[whole] if whole else ():
        yield from _fields(each)
    tables = {
        "events": ("id", "type", "about", "recorded_at", "actor"),
        "schedules": ("key", "type", "state", "next", "zone", "last_state", "plan"),
        "deliveries": ("id", "state", "event_id", "subscriber", "due_at", "attempt", "behind", "worker"),
        "attempts": ("settled_at", "subscriber", "number", "outcome", "took_ms", "note"),
        "log": ("at", "what", "schedule", "due_before", "due_after", "note"),
        "audit": ("recorded_at", "action", "actor", "changed"),
    }
    for name, columns in tables.items():
        if name != whole and found[name]:
            yield ""
            yield f"{name}:"
            yield from aligned([each.replace("_", " ") for each in columns], _rows(found[name], columns))
    for each in [each for each in found["events"] if "data" in each] if whole != "events" else ():
        yield f"data of {each['id']}: {json.dumps(each['data'], ensure_ascii=False)}"
    yield from (f"{each[0].upper()}{each[1:]}." for each in found["more"])


def _fields(row: Mapping[str, Any]) -> Iterator[str]:
    for name, value in row.items():
        if value not in (None, "", []):
            yield f"{name.replace('_', ' ')}: {_text(name, value)}"


def _rows(rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> list[list[str]]:
    return [[_cell(name, row) for name in columns] for row in rows]


def _cell(name: str, row: Mapping[str, Any]) -> str:
    value = row[name]
    if name == "note":
        value = telling_line(value, row.get("status"))
        return value if len(value) <= _ERROR_LIMIT else f"{value[: _ERROR_LIMIT - 1]}…"
    return "" if value is None else _text(name, value)


def _text(name: str, value: Any) -> str:
    if name.endswith("_at") or name in ("at", "next", "due_before", "due_after"):
        return local(datetime.fromisoformat(value), project_zone())
    if name == "took_ms":
        return f"{value:.0f}"
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return json.dumps(value, ensure_ascii=False) if isinstance(value, dict) else str(value)


def add_explain_options(parser: CommandParser) -> None:
    add_target_options(parser)
    parser.add_argument(
        "--days", type=positive, default=int(DAYS), metavar="N",
        help=f"how far back and ahead to look at the occurrences of a rule ({DAYS:.0f})",
    )  # fmt: skip


def explain(command: BaseCommand, options: dict[str, Any]) -> None:
    """Say what happened to an event, a schedule or an entity, or why it did not. Also to a delivery or in a request;
    and what is to come, and what could stop it."""
    found = explained(options["id"], kind=options["kind"], days=options["days"], using=options["database"])
    if options["json"]:
        command.stdout.write(json.dumps(found.as_dict()))
        return
    for line in _explanation(found):
        command.stdout.write(line)


def _explanation(found: Explanation) -> Iterator[str]:
    yield printable(str(found.target))
    yield from map(_explained_line, found.past)
    if found.present:
        yield "Now:"
        yield from map(_explained_line, found.present)
    yield from (f"{each[0].upper()}{each[1:]}." for each in found.more)


def _explained_line(line: Line) -> str:
    return f"  {line.local} {printable(line.details['zone'])}  {printable(line.text)}"


_HEAD = ("time", "event", "about", "handler", "late", "outcome")
_WIDTHS = (12, 30, 24, 30, 9)


def add_watch_options(parser: CommandParser) -> None:
    parser.add_argument("--type", metavar="EVENT", help="of this event type, or of a pattern as in 'order.*'")
    parser.add_argument(
        "--handler", metavar="NAME", help="of this handler or destination, or a pattern: 'mail.*', 'to:*'"
    )
    parser.add_argument("--seconds", type=per_second, metavar="N", help="end after N seconds (until Ctrl-C)")
    parser.add_argument(
        "--interval", type=per_second, default=INTERVAL_SECONDS, metavar="SECONDS",
        help=f"how often to look ({INTERVAL_SECONDS})",
    )  # fmt: skip
    parser.add_argument("--json", action="store_true", help="print JSON, one attempt a line")
    parser.add_argument("--database", metavar="ALIAS", help="the alias whose tables to look at (DUEBOX['DATABASE'])")


def watch(command: BaseCommand, options: dict[str, Any]) -> None:
    """Print each attempt as it happens: the event, the handler, how late it was, and how it ended. Ctrl-C ends it."""
    asked = {name: options[name] for name in ("type", "handler", "seconds", "interval")}
    found, zone = attempts(**asked, using=options["database"]), project_zone()
    if not options["json"]:
        command.stdout.write(_columns(_HEAD))
        command.stdout.flush()
    try:
        for sight in found:
            command.stdout.write(json.dumps(sight.as_dict()) if options["json"] else _watched_line(sight, zone))
            command.stdout.flush()
    except KeyboardInterrupt:
        pass  # the usual way to end it


def _watched_line(sight: Sight, zone: str) -> str:
    row = sight.row
    moment = f"{local_time(row.settled_at, zone):%H:%M:%S.%f}"[:-3]
    late = "" if sight.late_seconds is None else span(sight.late_seconds)
    return printable(_columns((moment, row.type, sight.about, row.subscriber, late, _ending(sight))))


def _ending(sight: Sight) -> str:
    row = sight.row
    took = f" in {span(row.took_ms / 1000)}" if row.took_ms is not None else ""
    number = f" at attempt {row.number}" if row.number > 1 else ""
    again = f", again in {span(sight.wait_seconds)}" if sight.wait_seconds is not None else ""
    error = f": {sight.error}" if sight.error else ""
    word = {"retried": "failed", "redriven": "retried", "rescued": "worker lost"}.get(row.outcome, row.outcome)
    return f"{word}{number}{took}{again}{error}"


def _columns(cells: tuple[str, ...]) -> str:
    *fixed, last = cells
    padded = [f"{cell:<{width}}" for cell, width in zip(fixed, _WIDTHS, strict=True)]
    return "  ".join([*padded, last]).rstrip()
