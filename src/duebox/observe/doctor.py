"""Doctor: look at the installation for what goes wrong on the second day, each finding with its value and its repair.

What the system checks know is asked of them; the rest is read from the catalogue of the server.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from django.core.checks import ERROR, run_checks

from duebox.conf import conf
from duebox.exceptions import NotReady
from duebox.observe.status import status
from duebox.schedules import capture
from duebox.store.database_state import PARAMETERS, TRIGGERS, Server, TableState, server, set_parameters, tables
from duebox.when import zones

OK, WARNING, FAILED = "ok", "warning", "error"
OLDEST_SERVER = 150_000
SKEW_SECONDS = (1.0, 60.0)
"""From when on a difference of the clocks is a warning, and an error."""
LONG_TRANSACTION_SECONDS = 300.0
OLD_SNAPSHOT = 10_000_000
"""Transactions that have begun since the oldest snapshot was taken."""
MANY_DEAD = 10_000
HOT = ("duebox_delivery", "duebox_schedule", "duebox_row_change", "duebox_worker")
TOPICS = {
    "duebox.E001": "settings", "duebox.W021": "settings", "duebox.E002": "settings", "duebox.E003": "settings",
    "duebox.W004": "migrations", "duebox.W005": "zones",
    "duebox.W023": "triggers", "duebox.W024": "triggers", "duebox.E047": "triggers",
}  # fmt: skip
"""What system checks are about; all others are `checks`."""


@dataclass(frozen=True, slots=True)
class Finding:
    topic: str
    level: str
    """ok, warning or error."""
    fact: str
    value: str = ""
    repair: str = ""

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def examine(using: str | None = None) -> list[Finding]:
    """Everything that was looked at, in a fixed order of topics."""
    alias = using or conf().DATABASE
    found = [*_from_checks(alias)]
    if any(each.topic == "migrations" and each.level == FAILED for each in found):
        return found  # the tables that the rest looks at may not be there
    at_server, of_tables = server(alias), tables(alias)
    return [
        *found,
        *_server(at_server),
        *_clock(at_server),
        *_pooler(at_server),
        *_transactions(at_server),
        *_tables(of_tables),
        *_workers(alias),
    ]


def _from_checks(using: str) -> Iterator[Finding]:
    """The system checks, with those for deployments. A topic without a finding is ok."""
    found: dict[str, list[Finding]] = {}
    for message in run_checks(tags=["duebox"], include_deployment_checks=True, databases=[using]):
        if message.is_silenced():
            continue
        topic = TOPICS.get(message.id or "", "checks")
        is_error = message.level >= ERROR or topic == "migrations"
        level = FAILED if is_error else WARNING
        found.setdefault(topic, []).append(Finding(topic, level, message.msg, message.id or "", message.hint or ""))
    database = zones.current()
    fine = {
        "migrations": ("All migrations are applied", ""),
        "settings": ("The settings are valid", f"DATABASE={using}"),
        "checks": ("The other system checks find nothing", ""),
        "zones": ("All zone databases agree for the coming year", f"{database.source} {database.release}"),
    }
    for topic, (fact, value) in fine.items():
        yield from found.get(topic, [Finding(topic, OK, fact, value)])
    if "triggers" in found:
        yield from found["triggers"]
    elif "migrations" not in found:
        installed = sum(each.state == "installed" for each in capture.tables(using))
        yield Finding("triggers", OK, "Triggers on followed tables are current", f"{installed} installed")


def _server(found: Server) -> Iterator[Finding]:
    if found.number < OLDEST_SERVER:
        yield Finding("server", FAILED, "PostgreSQL is too old", found.version, "Upgrade to PostgreSQL 15 or newer.")
    else:
        yield Finding("server", OK, "PostgreSQL is supported", found.version)
    if not found.autovacuum:
        repair = "Set autovacuum = on in postgresql.conf and reload it: dead rows make every claim slower."
        yield Finding("server", FAILED, "Autovacuum is off", "autovacuum = off", repair)


def _clock(found: Server) -> Iterator[Finding]:
    skew, (some, much) = abs(found.skew_seconds), SKEW_SECONDS
    value = f"{found.skew_seconds:+.3f} s"
    if skew < some:
        yield Finding("clock", OK, "The clocks of this host and of the database agree", value)
        return
    level = FAILED if skew >= much else WARNING
    repair = "Let NTP set both clocks, with chrony or systemd-timesyncd."
    yield Finding("clock", level, "The clocks of this host and of the database differ", value, repair)


def _pooler(found: Server) -> Iterator[Finding]:
    if not found.is_pooled:
        yield Finding("pooler", OK, "Each session has a server process of its own", "direct, or session mode")
    elif conf().LISTEN:
        repair = "Give the worker a direct connection. If polling is enough, turn listening off in the settings."
        fact = "A pooler in transaction mode is in between: no NOTIFY arrives, workers poll"
        yield Finding("pooler", WARNING, fact, "transaction mode", repair)
    else:
        yield Finding("pooler", OK, "A pooler is in between, and workers poll", "transaction mode")


def _transactions(found: Server) -> Iterator[Finding]:
    seconds = found.longest_seconds or 0.0
    if seconds >= LONG_TRANSACTION_SECONDS:
        value = f"pid {found.longest_pid} ({found.longest_application}), {seconds:.0f} s"
        repair = f"End it with pg_terminate_backend({found.longest_pid}), and set idle_in_transaction_session_timeout."
        fact = "A transaction is open for long, so dead rows cannot be removed"
        yield Finding("transactions", WARNING, fact, value, repair)
    else:
        yield Finding("transactions", OK, "No transaction is open for long", f"longest {seconds:.0f} s")
    if (age := found.oldest_age or 0) >= OLD_SNAPSHOT:
        value = f"{found.oldest_holder}, {age:,} transactions old"
        repair = "End the session, drop the replication slot, or commit the prepared transaction that holds it."
        yield Finding("transactions", WARNING, "An old snapshot keeps dead rows from being removed", value, repair)


def _tables(found: list[TableState]) -> Iterator[Finding]:
    of = {each.name: each for each in found}
    yield from _parameters(of)
    yield from _own_triggers(of)
    broken = [name for each in found for name in each.invalid_indexes]
    for name in broken:
        yield Finding("indexes", FAILED, "An index is invalid", name, f"Run: REINDEX INDEX CONCURRENTLY {name}")
    if not broken:
        yield Finding("indexes", OK, "All indexes are valid")
    bloated = [of[name] for name in HOT if name in of and of[name].dead > max(MANY_DEAD, of[name].live)]
    for each in bloated:
        value = f"{each.name}: {each.dead:,} dead, {each.live:,} living"
        repair = f"Run: VACUUM {each.name}; if it removes nothing, look for an old transaction or replication slot."
        yield Finding("dead rows", WARNING, "More rows are dead than living", value, repair)
    if not bloated:
        most = max((of[name] for name in HOT if name in of), key=lambda each: each.dead)
        value = f"most in {most.name}: {most.dead:,}"
        yield Finding("dead rows", OK, "The hot tables hold few dead rows", value)


def _parameters(of: dict[str, TableState]) -> Iterator[Finding]:
    wrong = False
    for name, wanted in PARAMETERS.items():
        has = of[name].parameters if name in of else {}
        other = {key: value for key, value in wanted.items() if has.get(key) != value}
        if other:
            wrong = True
            value = ", ".join(f"{name}.{key}={has.get(key, 'unset')}" for key in other)
            fact = "Storage parameters are not those that the migrations set"
            yield Finding("storage", WARNING, fact, value, f"Run: {set_parameters(name, other)}")
    if not wrong:
        yield Finding("storage", OK, "Storage parameters are as the migrations set them")


def _own_triggers(of: dict[str, TableState]) -> Iterator[Finding]:
    missing = [
        f"{trigger} on {name}"
        for name, wanted in TRIGGERS.items()
        for trigger in sorted(wanted - (of[name].triggers if name in of else set()))
    ]
    for each in missing:
        repair = "Enable it, or make it as another migrated database has it: without it, history can be changed."
        fact = "A trigger that keeps a table append-only is missing or disabled"
        yield Finding("triggers", FAILED, fact, each, repair)
    if not missing:
        yield Finding("triggers", OK, "The triggers that keep tables append-only are there")


def _workers(using: str) -> Iterator[Finding]:
    try:
        found = status(using=using)
    except NotReady as error:
        yield Finding("workers", FAILED, "The tables cannot be read", "", str(error))
        return
    if not found.workers:
        repair = "Start one: manage.py duebox worker; or run manage.py duebox once by cron."
        yield Finding("workers", WARNING, "No worker is running", "0", repair)
        return
    yield Finding("workers", OK, "Workers are running", str(found.workers))
    if conf().LISTEN and not found.listening:
        repair = "Wait until they sleep, and look again. If it stays so, a pooler or a lost connection is in between."
        yield Finding("listeners", WARNING, "No worker is woken by the database; they poll", "0", repair)
    else:
        yield Finding("listeners", OK, "Workers are woken by the database", str(found.listening))
