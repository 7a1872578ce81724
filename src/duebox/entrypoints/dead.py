"""`duebox dead`: look at what gave up, one by one or by cause."""

from __future__ import annotations

import getpass
import json
import os
from shlex import quote
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from duebox.auditing.text import printable
from duebox.conf import conf
from duebox.entrypoints.audit_entries import instant
from duebox.entrypoints.subscriber_names import serves_endpoints, stored_name
from duebox.entrypoints.terminal import aligned, readable
from duebox.entrypoints.worker import positive
from duebox.store import dead as store
from duebox.store.event_types import is_known, public, unlike
from duebox.store.targets import FAN_OUT
from duebox.subscribers import OUTSIDE

EITHER = ["dead", "parked"]


def add_dead_options(parser: CommandParser) -> None:
    parser.add_argument("id", nargs="?", type=int, help="show this dead letter with its whole history")
    parser.add_argument("--groups", action="store_true", help="by event type, subscriber and cause, the largest first")
    parser.add_argument("--parked", action="store_true", help="those that were set aside, with their notes")
    parser.add_argument("--limit", type=positive, default=50, help="how many to list (50)")
    parser.add_argument("--json", action="store_true", help="print JSON, one dead letter or group a line")
    add_filters(parser)


def dead(command: BaseCommand, options: dict[str, Any]) -> None:
    """List the dead letters, or their groups, or show one."""
    using = options["database"] or conf().DATABASE
    if options["id"]:
        _show(command, options, using)
    elif options["groups"]:
        _show_groups(command, options, using)
    else:
        _list(command, options, using)


def _list(command: BaseCommand, options: dict[str, Any], using: str) -> None:
    which = filters(options, using)
    if options["parked"]:
        which["statuses"] = ["parked"]
    letters = store.find(using, limit=options["limit"], **which)
    if options["json"]:
        for letter in letters:
            command.stdout.write(json.dumps(letter.as_dict()))
        return
    for letter in letters:
        command.stdout.write(
            f"{letter.id:>8}  {letter.died_at:%Y-%m-%d %H:%M:%S}  {letter.event_type}  ->  {letter.subscriber}"
        )
        for line in filter(None, (letter.error_line, letter.note)):
            command.stdout.write(f"          {printable(line)}")
    total = store.count(using, **which)
    what = _what(options)
    command.stdout.write(f"{total} {what}{'s' if total != 1 else ''}." if total else f"No {what}s.")


def _show_groups(command: BaseCommand, options: dict[str, Any], using: str) -> None:
    found = store.groups(using, parked=options["parked"], limit=options["limit"], **filters(options, using))
    if options["json"]:
        for group in found:
            command.stdout.write(json.dumps(group.as_dict()))
        return
    head = ("count", "event", "subscriber", "first, utc", "last, utc", "sample", "group", "error")
    for line in aligned(head, [_cells(group) for group in found]) if found else [f"No {_what(options)}s."]:
        command.stdout.write(line)
    if found:
        command.stdout.write(f"Another chance for a group: manage.py duebox redrive --group GROUP{_narrowed(options)}")


def _narrowed(options: dict[str, Any]) -> str:
    """What was counted may be a part of a group."""
    asked = [f" --{name} {quote(options[name])}" for name in ("organization", "since") if options[name]]
    return "".join(asked) + (" --parked" if options["parked"] else "")


def _cells(group: store.Group) -> tuple[str, ...]:
    first, last = (readable(each.replace(microsecond=0)) if each else "" for each in (group.first_at, group.last_at))
    sample, error = str(group.sample), printable(group.error)
    return str(group.count), group.event_type, group.subscriber, first, last, sample, group.id, error


def operator() -> str:
    """Who runs this command."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container whose user has no name
        return f"uid {os.getuid()}"


def add_filters(parser: CommandParser) -> None:
    parser.add_argument("--type", help="of this event type, or of a pattern as in 'order.*'")
    parser.add_argument("--subscriber", help="of this handler, destination or endpoint")
    parser.add_argument("--group", metavar="GROUP", help="of this group, as `duebox dead --groups` names it")
    parser.add_argument("--organization", metavar="ID", help="of events of this organization")
    parser.add_argument("--since", metavar="MOMENT", help="dead since this date or ISO time; local without an offset")
    parser.add_argument("--database", help="the alias whose tables to look at (DUEBOX['DATABASE'])")


def filters(options: dict[str, Any], using: str) -> store.Which:
    found = store.Which()
    if options["subscriber"]:
        found["subscriber"] = stored_name(using, options["subscriber"])
    if options["type"]:
        found["type"] = _type(options["type"], found.get("subscriber") or "", using)
    if options["group"]:
        found["group"] = _group(options, using)
    if options["organization"]:
        found["organization"] = options["organization"]
    if (since := instant(options, "since")) is not None:
        found["since"] = since
    return found


def _type(given: str, subscriber: str, using: str) -> str:
    """As events have it: those that go to endpoints are public, and people leave that word out."""
    alias = subscriber.removeprefix(FAN_OUT).removeprefix(OUTSIDE).partition("/")[0]
    pattern = public(given) if alias and serves_endpoints(alias) else given
    if not is_known(pattern) and (said := unlike(pattern, "a dead letter", store.types(using))):
        raise CommandError(said)
    return pattern


def _group(options: dict[str, Any], using: str) -> store.Group:
    """Where letters are named by their ids as well, parked ones may be meant."""
    parked = bool(options.get("parked"))
    found = store.group(using, options["group"], parked=parked)
    if found is None and options["id"]:
        found = store.group(using, options["group"], parked=True)
    if found is None:
        lists = f"`duebox dead --groups{' --parked' if parked else ''}` lists them."
        raise CommandError(f"No {_what(options)} is in the group {options['group']!r}; {lists}")
    return found


def _what(options: dict[str, Any]) -> str:
    return "parked letter" if options.get("parked") else "dead letter"


def _show(command: BaseCommand, options: dict[str, Any], using: str) -> None:
    letters = store.find(using, ids=[options["id"]], statuses=EITHER)
    if not letters:
        raise CommandError(f"No dead letter has the id {options['id']}; `duebox dead` lists them.")
    letter = letters[0]
    if options["json"]:
        command.stdout.write(json.dumps({**letter.as_dict(), "history": letter.history(using)}))
        return
    command.stdout.write(f"{letter.event_type} ({letter.event_id}) to {letter.subscriber}")
    command.stdout.write(f"data: {json.dumps(letter.data)}")
    command.stdout.write(f"group: {letter.group}")
    for line in letter.history(using):
        command.stdout.write(f"{line['settled_at']}  attempt {line['number']}: {line['outcome']}")
        command.stdout.write("\n".join(f"    {printable(text)}" for text in line["note"].splitlines()))
    command.stdout.write(f"Another chance: manage.py duebox redrive {letter.id}")
