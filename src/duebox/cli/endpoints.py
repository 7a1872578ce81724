"""`duebox endpoints`: webhook endpoints, their state, and their secrets, each shown once."""

from __future__ import annotations

import json
from argparse import ArgumentTypeError
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from duebox.cli.output import Group, Options, Verb, aligned, operator
from duebox.cli.worker import positive
from duebox.conf import conf
from duebox.destinations.endpoint_health import State, states_of
from duebox.destinations.names import ENDPOINTS, endpoint_of
from duebox.destinations.webhooks import filters
from duebox.events.identities import printable
from duebox.exceptions import Blocked
from duebox.models import WebhookEndpoint
from duebox.store import destinations as store

if TYPE_CHECKING:
    from types import ModuleType

_LINE = 100


def as_dict(row: WebhookEndpoint, state: State) -> dict[str, Any]:
    return {
        "id": str(row.pk),
        "organization": row.organization,
        "host": row.host,
        "types": row.types,
        "description": row.description,
        "rate": row.rate,
        "created_at": row.created_at.isoformat(),
        "disabled_at": row.disabled_at.isoformat() if row.disabled_at else None,
        "disabled_reason": row.disabled_reason,
        "two_secrets_until": row.previous_until.isoformat() if row.previous_until else None,
        **state.as_dict(),
    }


def listed(found: Iterable[tuple[WebhookEndpoint, State]]) -> list[str]:
    cells = [
        (
            str(row.pk),
            *map(printable, (row.organization, row.host, ",".join(row.types), _shown(row, state), row.description)),
        )
        for row, state in found
    ]
    if not cells:
        return ["No endpoints."]
    return aligned(("id", "organization", "host", "types", "state", "description"), cells)


def page(row: WebhookEndpoint, state: State, attempts: list[dict[str, Any]]) -> Iterator[str]:
    yield f"{row.pk}  {printable(str(row))}"
    yield f"types: {', '.join(row.types)}"
    if row.description:
        yield f"description: {printable(row.description)}"
    if row.rate:
        yield f"at most {row.rate:g} events a second"
    if row.previous_until:
        yield f"two secrets sign until {row.previous_until:%Y-%m-%d %H:%M} UTC"
    yield printable(_shown(row, state))
    yield from map(_line, attempts)
    if not attempts:
        yield "Nothing was sent yet."


def _line(attempt: dict[str, Any]) -> str:
    took = f"{attempt['took_ms']:.0f} ms" if attempt["took_ms"] is not None else ""
    first = printable(attempt["note"].strip())[:_LINE]
    parts = (attempt["settled_at"][:19], attempt["outcome"], str(attempt["status"] or ""), took, attempt["type"], first)
    return "  ".join(part for part in parts if part)


def _shown(row: WebhookEndpoint, state: State) -> str:
    return f"disabled: {row.disabled_reason}" if row.disabled_at else "; ".join(["enabled", *state.words()])


A_YEAR = 8_760


def show_all(command: BaseCommand, options: Options) -> None:
    """List the endpoints and their states."""
    rows = WebhookEndpoint.objects.using(_using(options)).order_by("organization", "pk")
    if options["organization"]:
        rows = rows.of(options["organization"])
    states = states_of(_using(options))
    found = [(row, states(row)) for row in rows]
    _tell(command, options, [as_dict(row, state) for row, state in found], "\n".join(listed(found)))


def add(command: BaseCommand, options: Options) -> None:
    """Add an endpoint and print its secret, once."""
    types = options["types"].split(",")
    with _naming_the_option():
        made = _api().create(
            options["organization"], options["url"], types, description=options["description"],
            headers=_headers(options["header"]), rate=options["rate"], using=_using(options),
        )  # fmt: skip
    shown = {**_as_dict(options, made.endpoint), "secret": made.secret}
    _tell(command, options, shown, f"{made.endpoint.pk}\n{made.secret}")
    _warn(command, types)


def change(command: BaseCommand, options: Options) -> None:
    """Change an endpoint. Options that are left out do not change."""
    given = {name: options[name] for name in ("url", "description", "rate") if options[name] is not None}
    if options["types"] is not None:
        given["types"] = options["types"].split(",")
    if options["header"] or options["no_headers"]:
        given["headers"] = _headers(options["header"])
    if not given:
        raise CommandError("There is nothing to change; pass --url, --types, --description, --header or --rate.")
    with _naming_the_option():
        row = _api().change(_endpoint(options), **given)
    _tell(command, options, _as_dict(options, row), f"{row} is changed.")
    _warn(command, given.get("types", []))


def show(command: BaseCommand, options: Options) -> None:
    """Show an endpoint and its last attempts."""
    row = _endpoint(options)
    attempts = store.last_attempts(_using(options), _api().destination().alias, row.pk, options["limit"])
    state = states_of(_using(options))(row)
    shown = {**as_dict(row, state), "attempts": attempts}
    _tell(command, options, shown, "\n".join(page(row, state, attempts)))


def rotate(command: BaseCommand, options: Options) -> None:
    """Replace the secret of an endpoint. The new one is printed once; both sign until the overlap ends."""
    row = _endpoint(options)
    secret = _api().rotate(row, overlap=timedelta(hours=options["overlap_hours"]))
    _tell(command, options, {"id": options["id"], "secret": secret}, secret)
    if not _api().readable(row.headers):
        command.stderr.write(
            "Its headers cannot be decrypted, and nothing is sent without them; set them again: manage.py duebox "
            f"endpoints change {row.pk} --header 'NAME: VALUE', or --no-headers"
        )


def test(command: BaseCommand, options: Options) -> None:
    """Send a test event now, and print the response."""
    tried = _api().test(_endpoint(options))
    said = tried.error or f"{tried.status} {tried.text}".rstrip()
    _tell(command, options, {**tried._asdict(), "ok": tried.ok}, f"{printable(said)} ({tried.took_ms:.0f} ms)")
    if not tried.ok:
        raise CommandError("The endpoint did not accept the test event.")


def enable(command: BaseCommand, options: Options) -> None:
    """Send again to an endpoint that was disabled."""
    row = _api().enable(_endpoint(options))
    _tell(command, options, _as_dict(options, row), f"{row} is enabled.")


def disable(command: BaseCommand, options: Options) -> None:
    """Send nothing more to an endpoint."""
    row = _api().disable(_endpoint(options), options["reason"] or f"by {operator()}")
    _tell(command, options, _as_dict(options, row), f"{row}: {row.disabled_reason}")


def remove(command: BaseCommand, options: Options) -> None:
    """Remove an endpoint. Its open deliveries are discarded."""
    row = _endpoint(options)
    shown = _as_dict(options, row)
    _api().remove(row)
    _tell(command, options, shown, f"{row} is removed.")


def reencrypt(command: BaseCommand, options: Options) -> None:
    """Encrypt all secrets with the newest key. For after a change of DUEBOX['WEBHOOK_KEYS']."""
    done = _api().reencrypt(_using(options))
    _tell(command, options, {"reencrypted": done}, f"{done} endpoint{'s' if done != 1 else ''} under the newest key.")


def _add_id(parser: CommandParser) -> None:
    parser.add_argument("id", help="the id of the endpoint, or the beginning of it")


def _add_add_options(parser: CommandParser) -> None:
    parser.add_argument("organization")
    parser.add_argument("url")
    parser.add_argument(
        "--types", default="*", help="event types to send, separated by commas: order.paid,invoice.* (all)"
    )
    parser.add_argument("--description", default="")
    parser.add_argument("--header", action="append", default=[], metavar="'NAME: VALUE'", help="sent along; repeatable")
    parser.add_argument("--rate", type=float, help="maximum number of events per second")


def _add_change_options(parser: CommandParser) -> None:
    _add_id(parser)
    parser.add_argument("--url")
    parser.add_argument("--types", help="event types to send from now on, separated by commas: order.paid,invoice.*")
    parser.add_argument("--description")
    headers = parser.add_mutually_exclusive_group()
    headers.add_argument(
        "--header", action="append", default=[], metavar="'NAME: VALUE'", help="replaces all headers; repeatable"
    )
    headers.add_argument("--no-headers", action="store_true", help="remove all of them")
    parser.add_argument("--rate", type=float, help="maximum number of events per second; 0 for no limit")


def _add_list_options(parser: CommandParser) -> None:
    parser.add_argument("--organization", help="only of this one")


def _add_show_options(parser: CommandParser) -> None:
    _add_id(parser)
    parser.add_argument("--limit", type=positive, default=10, help="how many attempts (10)")


def _add_rotate_options(parser: CommandParser) -> None:
    _add_id(parser)
    parser.add_argument("--overlap-hours", type=_hours, default=24.0, help="how long the old secret signs, too (24)")


def _hours(text: str) -> float:
    try:
        hours = float(text)
    except ValueError:
        hours = -1.0
    if not 0 <= hours <= A_YEAR:
        raise ArgumentTypeError(f"{text!r} is not a number of hours from 0 to {A_YEAR:,}")
    return hours


def _add_disable_options(parser: CommandParser) -> None:
    _add_id(parser)
    parser.add_argument("--reason", help="stored with the endpoint, and with each event that it misses")


def _verb(run: Callable[[BaseCommand, Options], None], add_options: Callable[[CommandParser], None] | None) -> Verb:
    def add(parser: CommandParser) -> None:
        if add_options:
            add_options(parser)
        parser.add_argument("--json", action="store_true", help="print JSON")
        parser.add_argument("--database", metavar="ALIAS", help="the alias whose tables to use (DUEBOX['DATABASE'])")

    return Verb(run, add)


WEBHOOK_ENDPOINTS = Group(
    "Webhook endpoints",
    "List, add, test, disable and enable webhook endpoints, and rotate their secrets.",
    {
        "list": _verb(show_all, _add_list_options),
        "show": _verb(show, _add_show_options),
        "add": _verb(add, _add_add_options),
        "change": _verb(change, _add_change_options),
        "rotate": _verb(rotate, _add_rotate_options),
        "test": _verb(test, _add_id),
        "enable": _verb(enable, _add_id),
        "disable": _verb(disable, _add_disable_options),
        "remove": _verb(remove, _add_id),
        "reencrypt": _verb(reencrypt, None),
    },
)


def _api() -> ModuleType:
    """Imported late: it needs optional packages for webhooks."""
    from duebox.destinations.options import driver

    driver("cryptography", "webhooks")
    return driver("duebox.destinations.webhooks.endpoints", "webhooks")  # type: ignore[no-any-return]


def _endpoint(options: Options) -> WebhookEndpoint:
    row = endpoint_of(_using(options), options["id"])
    if row is None:
        raise CommandError(f"No endpoint has the id {options['id']!r}; {ENDPOINTS}")
    return row


def _as_dict(options: Options, row: WebhookEndpoint) -> dict[str, Any]:
    return as_dict(row, states_of(_using(options))(row))


def _warn(command: BaseCommand, types: list[str]) -> None:
    """If undeclared events may be emitted, an undeclared type is only a warning."""
    for said in filters.unmet(types):
        command.stderr.write(said)


@contextmanager
def _naming_the_option() -> Iterator[None]:
    """For a blocked URL, name the option that allows it: the user of this command may set it."""
    try:
        yield
    except Blocked as error:
        if not error.option:
            raise
        where = f"DUEBOX['DESTINATIONS'][{_api().destination().alias!r}]"
        raise CommandError(f"{error} To allow it, set {error.option} in the OPTIONS of {where}.") from error


def _headers(lines: list[str]) -> dict[str, str]:
    pairs = [line.partition(":") for line in lines]
    if not all(colon for _, colon, _ in pairs):
        raise CommandError("A header is written as 'Name: value'.")
    return {name.strip(): value.strip() for name, _, value in pairs}


def _using(options: Options) -> str:
    return str(options["database"] or conf().DATABASE)


def _tell(command: BaseCommand, options: Options, data: Any, text: str) -> None:
    command.stdout.write(json.dumps(data) if options["json"] else text)
