"""System checks: what is wrong before anything runs, each with the repair in its hint."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from datetime import timedelta
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from django.apps import AppConfig
from django.core.checks import CheckMessage, Error, Tags, Warning, register
from django.db import DatabaseError, OperationalError, connections
from django.db.migrations.executor import MigrationExecutor

from duebox import capture, clock, identities
from duebox.conf import conf, misspelt, mistakes
from duebox.contracts import declared, files, naming
from duebox.contracts.types import latest, versions_of
from duebox.periodic import by_name as periodic_functions
from duebox.plans import Plan, plans, watch_mistakes
from duebox.store import followed_tables
from duebox.store import zones as zones_in_database
from duebox.store.zones import ZoneProbe
from duebox.subscribers import subscribers
from duebox.sweeps import Sweep
from duebox.sweeps import by_name as sweeps
from duebox.when import WhenError, ZoneDatabase, clock_changes, disagreements, zones

A_YEAR = timedelta(days=366)
A_MONTH = timedelta(days=30)
A_SECOND = timedelta(seconds=1)
SHOWN = 5
# What psycopg's pool has unless it is told otherwise.
POOL_SIZE = 4


@register("duebox")
def check_settings(app_configs: Sequence[AppConfig] | None, **kwargs: Any) -> list[CheckMessage]:
    return [Error(message, hint=hint, id="duebox.E001") for message, hint in mistakes()]


@register("duebox")
def check_settings_of_another_name(app_configs: Sequence[AppConfig] | None, **kwargs: Any) -> list[CheckMessage]:
    """A setting that is meant for Duebox, and that Duebox never reads."""
    return [Warning(message, hint=hint, id="duebox.W021") for message, hint in misspelt()]


@register("duebox")
def check_pools(app_configs: Sequence[AppConfig] | None, **kwargs: Any) -> list[CheckMessage]:
    """A worker has connections of its own to its database; handlers take those to others from the pools."""
    found: list[CheckMessage] = []
    for alias in connections:
        pool = connections[alias].settings_dict.get("OPTIONS", {}).get("pool")
        if not pool or alias == conf().DATABASE:
            continue
        given = pool if isinstance(pool, dict) else {}
        size = given.get("max_size") or given.get("min_size", POOL_SIZE)
        if size < conf().THREADS:
            message = (
                f"The connection pool of database {alias!r} has {size} connections, a worker {conf().THREADS} threads."
            )
            hint = (
                f"Handlers that use {alias!r} may wait for each other. Set OPTIONS['pool'] = "
                f"{{'max_size': {conf().THREADS}}} or more in its entry, or lower DUEBOX['THREADS']."
            )
            found.append(Warning(message, hint=hint, id="duebox.W022"))
    return found


@register("duebox")
def check_aggregate_names(app_configs: Sequence[AppConfig] | None, **kwargs: Any) -> list[CheckMessage]:
    return [Error(message, hint=hint, id="duebox.E050") for message, hint in identities.mistakes()]


@register("duebox")
def check_database_kind(app_configs: Sequence[AppConfig] | None, **kwargs: Any) -> list[CheckMessage]:
    alias = conf().DATABASE
    if alias not in connections:
        return [
            Error(
                f"DUEBOX['DATABASE'] is {alias!r}, which DATABASES does not have.",
                hint=f"Use one of: {', '.join(connections)}.",
                id="duebox.E002",
            )
        ]
    vendor = connections[alias].vendor
    if vendor != "postgresql":
        return [
            Error(
                f"Database {alias!r} is {vendor}; Duebox needs PostgreSQL 15 or newer.",
                hint="Set ENGINE to django.db.backends.postgresql, or try `duebox.embedded` for a local server.",
                id="duebox.E003",
            )
        ]
    return []


@register(Tags.database, "duebox")
def check_migrations(
    app_configs: Sequence[AppConfig] | None, databases: Sequence[str] | None = None, **kwargs: Any
) -> list[CheckMessage]:
    alias = conf().DATABASE
    if sys.argv[1:2] == ["migrate"]:
        return []  # it runs this check before it repairs what the check would complain about
    if alias not in (databases or ()) or connections[alias].vendor != "postgresql":
        return []
    try:
        executor = MigrationExecutor(connections[alias])
    except OperationalError:
        return []  # a database that does not answer is nothing this check knows a repair for
    targets = [node for node in executor.loader.graph.leaf_nodes() if node[0] == "duebox"]
    missing = [migration.name for migration, _ in executor.migration_plan(targets) if migration.app_label == "duebox"]
    if not missing:
        return []
    return [
        # Not an error: `migrate` runs this check too, and must not be stopped by what it is about to repair.
        Warning(
            f"Database {alias!r} lacks the Duebox migrations {', '.join(missing)}.",
            hint=f"Run: manage.py migrate duebox --database {alias}",
            id="duebox.W004",
        )
    ]


@register("duebox")
def check_schema_files(app_configs: Sequence[AppConfig] | None, **kwargs: Any) -> list[CheckMessage]:
    place = files.folder()
    if {"schemas", "write"} <= {*sys.argv[1:]}:
        return []  # it runs this check before it repairs what the check would complain about
    hint = "Repair the file. If a class declares the type, run: manage.py duebox schemas write"
    # What could be used was declared at the start, so this tries again what could not.
    broken = [Error(str(error), hint=hint, id="duebox.E008") for error in files.load(place)]
    if "schemas" in sys.argv[1:] or not place.is_dir():
        return [*broken]  # `schemas check` tells the rest itself
    return [*broken, *_out_of_step(place), *_misnamed(place)]


def _out_of_step(place: Path) -> Iterator[CheckMessage]:
    found = [each for each in files.differences(place, declared()) if each.what != files.BROKEN]
    if found:
        listed = _listed([f"{each.path.name} is {each.what}" for each in found])
        yield Warning(
            f"The schema files are not what the code declares: {listed}.",
            hint="Run: manage.py duebox schemas write",
            id="duebox.W006",
        )


def _misnamed(place: Path) -> Iterator[CheckMessage]:
    if found := files.misnamed(place):
        yield Warning(
            "Files among the schemas are not read, because they are not called <type>.v<version>.json: "
            f"{_listed([path.name for path in found])}.",
            hint="Rename them, as in order.sent.v1.json, or put them elsewhere.",
            id="duebox.W006",
        )


def _listed(found: list[str]) -> str:
    shown, rest = ", ".join(found[:SHOWN]), len(found) - SHOWN
    return f"{shown} and {rest} more" if rest > 0 else shown


@register("duebox")
def check_declared_types(app_configs: Sequence[AppConfig] | None, **kwargs: Any) -> list[CheckMessage]:
    if conf().UNDECLARED != "refuse":
        return []
    known = {kind.name: bool(kind.twin_of) for kind in declared()}
    known |= {each.type: True for each in periodic_functions().values()}
    emitted = [name for name, is_public in known.items() if not is_public]
    found = [(f"Handler {each.name!r} waits for", each.pattern, [*known]) for each in subscribers()]
    found += [(f"Plan {each.name!r} emits", each.event, emitted) for each in plans()]
    found += [(f"Sweep {name!r} emits", each.event, emitted) for name, each in sweeps().items()]
    return [
        Warning(f"{who} {event!r}, which nobody declared.", hint=_declare(event, names), id="duebox.W007")
        for who, event, names in found
        if event not in names and "*" not in event and not event.startswith("duebox.")
    ]


@register("duebox")
def check_event_names(app_configs: Sequence[AppConfig] | None, **kwargs: Any) -> list[CheckMessage]:
    checked = {kind.name: kind for kind in declared() if kind.check_name and not kind.twin_of}
    return [
        Error(
            f"Event type {name!r} {wrong[0]} (declared in {kind.origin}).",
            hint=f"{wrong[1]} If the name is right, declare it with check_name=False.",
            id="duebox.E040",
        )
        for name, kind in checked.items()
        if (wrong := naming.complaint(name))
    ]


@register("duebox")
def check_versions_of_handlers(app_configs: Sequence[AppConfig] | None, **kwargs: Any) -> list[CheckMessage]:
    """Handlers of an event class cannot read events of a newer version."""
    return [
        Error(
            f"Handler {each.name!r} subscribed with {each.kind.shape.__name__}, version {each.kind.version} of "
            f"{each.pattern!r}, and version {newest} is declared: it cannot read events of that.",
            hint=f"Subscribe with the class of version {newest}.",
            id="duebox.E042",
        )
        for each in subscribers()
        if each.kind and each.kind.shape and each.kind.version < (newest := max(versions_of(each.pattern), default=0))
    ]


@register("duebox")
def check_planned_data(app_configs: Sequence[AppConfig] | None, **kwargs: Any) -> list[CheckMessage]:
    found: list[tuple[str, Any, type]] = [(f"Plan {each.name!r}", type(each), Plan) for each in plans()]
    found += [(f"Sweep {name!r}", each, Sweep) for name, each in sweeps().items()]
    return [message for who, cls, base in found for message in _lacking(who, cls, base)]


def _lacking(who: str, cls: Any, base: Any) -> Iterator[CheckMessage]:
    """What the event of a plan or a sweep needs and the class does not say: every row would fail."""
    kind = latest(cls.event)
    required = kind.schema.get("required", ()) if kind else ()
    if required and cls.data is base.data:
        yield Error(
            f"{who} has no data(self, row), but {cls.event!r} requires {', '.join(required)}.",
            hint=f"Define data(self, row) in {cls.__name__}, with these fields.",
            id="duebox.E041",
        )
    if kind and kind.public and cls.organization is base.organization:
        yield Error(
            f"{who} has no organization(self, row), but {cls.event!r} has a public event, which belongs to one.",
            hint=f"Define organization(self, row) in {cls.__name__}.",
            id="duebox.E041",
        )


@register("duebox")
def check_watched_fields(app_configs: Sequence[AppConfig] | None, **kwargs: Any) -> list[CheckMessage]:
    """Of a plan that was declared before the models were ready; any other was refused when it was declared."""
    hint = "Correct watch of the plan. Until then changes of all fields count."
    return [Error(mistake, hint=hint, id="duebox.E043") for plan in plans() for mistake in watch_mistakes(plan)]


@register(Tags.database, "duebox")
def check_triggers(
    app_configs: Sequence[AppConfig] | None, databases: Sequence[str] | None = None, **kwargs: Any
) -> list[CheckMessage]:
    """Triggers on the tables that plans follow: where they are not, and where there can be none."""
    if sys.argv[1:2] == ["migrate"]:
        return []  # it runs this check before it repairs what the check would complain about
    found: list[CheckMessage] = []
    for alias in databases or ():
        try:
            if plans() and capture.is_ready(alias):
                found += [*_without_triggers(alias), *_unfollowed(alias)]
        except OperationalError:
            continue  # a database that does not answer is nothing this check knows a repair for
    return found


def _without_triggers(alias: str) -> Iterator[CheckMessage]:
    wrong = [each for each in capture.tables(alias) if each.state in ("missing", "outdated")]
    if not wrong:
        return
    rights = {each.table: followed_tables.rights(alias, each.table) for each in wrong}
    refused = [table for table, has in rights.items() if not has.are_enough]
    hint = f"Run: manage.py migrate --database {alias}"
    if refused:
        role, schema = rights[refused[0]][:2]
        grants = [f"GRANT TRIGGER ON {table} TO {role};" for table in refused if not rights[table].on_table]
        if not all(rights[table].in_schema for table in refused):
            grants.append(f"GRANT CREATE ON SCHEMA {schema} TO {role};")
        give = f"Let the owner run {' '.join(grants)} and then run it. " if grants else ""
        hint += (
            f", as a role that may do it: {role} may not. {give}Or let a role that may do it, and has the rights of "
            f"Duebox on its tables, run what this prints: manage.py duebox capture --sql --database {alias}"
        )
    listed = _listed([f"those on {each.table} are {each.state}" for each in wrong])
    yield Warning(
        f"Triggers on tables that plans follow are not installed in database {alias!r}: {listed}. There, only what is "
        "saved and deleted through Django is sure to be seen.",
        hint=hint,
        id="duebox.W023",
    )


def _unfollowed(alias: str) -> Iterator[CheckMessage]:
    for each in capture.unfollowed(alias):
        yield Warning(
            f"{each.model._meta.label} cannot have triggers, because {each.why}: plans that follow it "
            f"({_listed([*each.plans])}) see what is saved and deleted through Django, and not QuerySet.update(), bulk "
            "operations and raw SQL.",
            hint=(
                "Call sync of the plan after these, or leave them to the daily reconcile. If that is enough, put "
                "'duebox.W024' into SILENCED_SYSTEM_CHECKS."
            ),
            id="duebox.W024",
        )


def _declare(event: str, names: list[str]) -> str:
    near = get_close_matches(event, names, n=1, cutoff=0.75)
    hint = f"Did you mean {near[0]!r}? If not, declare" if near else "Declare"
    inner = event.removeprefix("public.")
    if inner != event:
        return f"{hint} what others may see of {inner!r} with public={{...}}; Duebox emits it then."
    return f"{hint} it with @duebox.event({event!r}) above a class in events.py."


# The next two are for deployments only. The other checks run at the start of every command, where half a second and a
# warning would be too much for something that does not touch what Duebox does; `check --deploy` looks at the machine.


@register("duebox", deploy=True)
def check_system_zones(app_configs: Sequence[AppConfig] | None, **kwargs: Any) -> list[CheckMessage]:
    ours = zones.current()
    try:
        other = zones.from_tzdata() if ours.source == "system" else zones.from_system()
    except (WhenError, ImportError, OSError):
        return []  # there is no other copy to disagree with
    now = clock.now()
    names = disagreements(ours, other, now, now + A_YEAR)
    whose = "The tzdata package" if other.source == "tzdata" else "The operating system"
    return _zones_differ(ours, f"{whose} ({other.release})", names, _repair(ours, other))


@register(Tags.database, "duebox", deploy=True)
def check_database_zones(
    app_configs: Sequence[AppConfig] | None, databases: Sequence[str] | None = None, **kwargs: Any
) -> list[CheckMessage]:
    alias = conf().DATABASE
    if alias not in (databases or ()) or connections[alias].vendor != "postgresql":
        return []
    ours = zones.current()
    try:
        names = zones_in_database.disagreements(alias, list(_probes(ours)))
    except DatabaseError:
        return []
    hint = (
        f"What Duebox plans goes by {_named(ours)} and is right; SQL that says AT TIME ZONE is not. "
        "Upgrade PostgreSQL or, where it reads the zone files of its system, those."
    )
    return _zones_differ(ours, f"PostgreSQL on {alias!r}", names, hint)


def _zones_differ(ours: ZoneDatabase, whose: str, names: list[str], hint: str) -> list[CheckMessage]:
    if not names:
        return []
    count = f"{len(names)} zone{'' if len(names) == 1 else 's'}"
    return [
        Warning(
            f"{whose} has other clocks than Duebox ({_named(ours)}) for {count} in the coming year: {_listed(names)}.",
            hint=hint,
            id="duebox.W005",
        )
    ]


def _repair(ours: ZoneDatabase, other: ZoneDatabase) -> str:
    system_ours = ours.source == "system"
    if "unknown" not in (ours.release, other.release) and other.release > ours.release:
        newer = "Upgrade the system's zone files, or set DUEBOX['TZ_SOURCE'] = 'tzdata'."
        return f"What Duebox plans is behind. {newer if system_ours else 'Run: pip install --upgrade tzdata'}"
    follow = "Upgrade the package: pip install --upgrade tzdata"
    if not system_ours:
        follow = "Upgrade the system's zone files, or set DUEBOX['TZ_SOURCE'] = 'system' to go by them."
    return f"What Duebox plans goes by {_named(ours)} and is right; other programs here are not. {follow}"


def _named(database: ZoneDatabase) -> str:
    return f"{database.source} {database.release}"


def _probes(database: ZoneDatabase) -> Iterator[ZoneProbe]:
    """Around each clock change of the coming year, and a month apart for the changes that only others know."""
    now = clock.now().replace(microsecond=0)
    for name in database.names:
        if "/" not in name:
            continue  # PostgreSQL takes CET and its like for abbreviations
        rules = database.zone(name)
        changes = [change.instant for change in clock_changes(name, now, now + A_YEAR, database=database)]
        for at in (*(now + step * A_MONTH for step in range(13)), *changes, *(one - A_SECOND for one in changes)):
            offset = at.astimezone(rules).utcoffset()
            assert offset is not None
            yield ZoneProbe(name, at, round(offset.total_seconds()))
