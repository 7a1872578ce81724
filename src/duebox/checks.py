"""System checks. The hint of each message says how to repair the problem."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

from django.apps import AppConfig
from django.core.checks import CheckMessage, Error, Tags, Warning, register
from django.db import DatabaseError, OperationalError, connections
from django.db.migrations.executor import MigrationExecutor

from duebox import clock
from duebox.audit_log import triggers
from duebox.conf import conf, misspelt, mistakes
from duebox.contracts import declared, event_types, naming, schema_files
from duebox.contracts.enforce import is_misspelt
from duebox.contracts.event_types import latest, versions_of
from duebox.events import identities
from duebox.events.subscribers import subscribers
from duebox.exceptions import did_you_mean
from duebox.schedules import capture
from duebox.schedules.periodic import by_name as periodic_functions
from duebox.schedules.plans import Plan, plans, watch_mistakes
from duebox.schedules.sweeps import Sweep
from duebox.schedules.sweeps import by_name as sweeps
from duebox.store import row_changes
from duebox.store import schedules as zones_in_database
from duebox.store.schedules import ZoneProbe
from duebox.when import WhenError, ZoneDatabase, clock_changes, disagreements, zones

A_YEAR = timedelta(days=366)
A_MONTH = timedelta(days=30)
A_SECOND = timedelta(seconds=1)
SHOWN = 5
# The default of psycopg's pool.
POOL_SIZE = 4


def check_settings(app_configs: Sequence[AppConfig] | None, **kwargs: Any) -> list[CheckMessage]:
    return [Error(message, hint=hint, id="duebox.E001") for message, hint in mistakes()]


def check_settings_of_another_name(app_configs: Sequence[AppConfig] | None, **kwargs: Any) -> list[CheckMessage]:
    """Settings that were probably meant for Duebox, but that Duebox does not read."""
    return [Warning(message, hint=hint, id="duebox.W021") for message, hint in misspelt()]


def check_pools(app_configs: Sequence[AppConfig] | None, **kwargs: Any) -> list[CheckMessage]:
    """A worker has its own connections to its database; handlers take connections to other databases from the pools."""
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


def check_aggregate_names(app_configs: Sequence[AppConfig] | None, **kwargs: Any) -> list[CheckMessage]:
    return [Error(message, hint=hint, id="duebox.E050") for message, hint in identities.mistakes()]


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


def check_migrations(
    app_configs: Sequence[AppConfig] | None, databases: Sequence[str] | None = None, **kwargs: Any
) -> list[CheckMessage]:
    alias = conf().DATABASE
    if sys.argv[1:2] == ["migrate"]:
        return []  # the command runs this check before it repairs the problem
    if alias not in (databases or ()) or connections[alias].vendor != "postgresql":
        return []
    try:
        executor = MigrationExecutor(connections[alias])
    except OperationalError:
        return []  # this check has no repair for a database that does not answer
    targets = [node for node in executor.loader.graph.leaf_nodes() if node[0] == "duebox"]
    missing = [migration.name for migration, _ in executor.migration_plan(targets) if migration.app_label == "duebox"]
    if not missing:
        return []
    return [
        # Not an error: it would stop `migrate`, which runs this check too and repairs the problem.
        Warning(
            f"Database {alias!r} lacks the Duebox migrations {', '.join(missing)}.",
            hint=f"Run: manage.py migrate duebox --database {alias}",
            id="duebox.W004",
        )
    ]


def check_schema_files(app_configs: Sequence[AppConfig] | None, **kwargs: Any) -> list[CheckMessage]:
    place = schema_files.folder()
    if {"schemas", "write"} <= {*sys.argv[1:]}:
        return []  # the command runs this check before it repairs the problem
    hint = "Repair the file. If a class declares the type, run: manage.py duebox schemas write"
    # The usable files were declared at the start, so this tries only the others again.
    broken = [Error(str(error), hint=hint, id="duebox.E008") for error in schema_files.load(place)]
    if "schemas" in sys.argv[1:] or not place.is_dir():
        return [*broken]  # `schemas check` reports the rest itself
    return [*broken, *_out_of_step(place), *_misnamed(place)]


def _out_of_step(place: Path) -> Iterator[CheckMessage]:
    found = [each for each in schema_files.differences(place, declared()) if each.what != schema_files.BROKEN]
    if found:
        listed = _listed([f"{each.path.name} is {each.what}" for each in found])
        yield Warning(
            f"The schema files are not what the code declares: {listed}.",
            hint="Run: manage.py duebox schemas write",
            id="duebox.W006",
        )


def _misnamed(place: Path) -> Iterator[CheckMessage]:
    if found := schema_files.misnamed(place):
        yield Warning(
            "Files among the schemas are not read, because they are not called <type>.v<version>.json: "
            f"{_listed([path.name for path in found])}.",
            hint="Rename them, as in order.sent.v1.json, or put them elsewhere.",
            id="duebox.W006",
        )


def _listed(found: list[str]) -> str:
    shown, rest = ", ".join(found[:SHOWN]), len(found) - SHOWN
    return f"{shown} and {rest} more" if rest > 0 else shown


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
        Warning(f"{who} {event!r}, which is not declared.", hint=_declare(event, names), id="duebox.W007")
        for who, event, names in found
        if event not in names and "*" not in event and not event.startswith("duebox.") and not is_misspelt(event)
    ]


def check_event_spelling(app_configs: Sequence[AppConfig] | None, **kwargs: Any) -> list[CheckMessage]:
    """Invalid names of event types: no event can be stored under them."""
    kinds = {kind.name: kind for kind in event_types.misspelt()}
    found = [(f"Event type {name!r}", name, f" (declared in {kind.origin})") for name, kind in kinds.items()]
    emitted = [(f"Plan {each.name!r}", each.event) for each in plans()]
    emitted += [(f"Sweep {name!r}", each.event) for name, each in sweeps().items()]
    found += [(f"{who} emits {event!r}, which", event, "") for who, event in emitted if is_misspelt(event)]
    return [
        Error(
            f"{what} {wrong[0]}{where}.",
            hint=f"{wrong[1][0].upper()}{wrong[1][1:]} Until then it cannot be emitted.",
            id="duebox.E044",
        )
        for what, name, where in found
        if (wrong := naming.misspelling(name))
    ]


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


def check_versions_of_handlers(app_configs: Sequence[AppConfig] | None, **kwargs: Any) -> list[CheckMessage]:
    """Handlers that subscribed with an event class cannot read events of a newer version."""
    return [
        Error(
            f"Handler {each.name!r} subscribed with {each.kind.shape.__name__}, version {each.kind.version} of "
            f"{each.pattern!r}, but version {newest} is declared: it cannot read events of that version.",
            hint=f"Subscribe with the class of version {newest}.",
            id="duebox.E042",
        )
        for each in subscribers()
        if each.kind and each.kind.shape and each.kind.version < (newest := max(versions_of(each.pattern), default=0))
    ]


def check_planned_data(app_configs: Sequence[AppConfig] | None, **kwargs: Any) -> list[CheckMessage]:
    found: list[tuple[str, Any, type]] = [(f"Plan {each.name!r}", type(each), Plan) for each in plans()]
    found += [(f"Sweep {name!r}", each, Sweep) for name, each in sweeps().items()]
    return [message for who, cls, base in found for message in _lacking(who, cls, base)]


def _lacking(who: str, cls: Any, base: Any) -> Iterator[CheckMessage]:
    """Methods that a plan or sweep must define because its event requires them: without them every row would fail."""
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
            f"{who} has no organization(self, row), but {cls.event!r} has a public event, which needs an organization.",
            hint=f"Define organization(self, row) in {cls.__name__}.",
            id="duebox.E041",
        )


def check_watched_fields(app_configs: Sequence[AppConfig] | None, **kwargs: Any) -> list[CheckMessage]:
    """Invalid `watch` fields of plans that were declared before the models were ready; others raise when declared."""
    hint = "Correct watch of the plan. Until then changes of all fields count."
    return [Error(mistake, hint=hint, id="duebox.E043") for plan in plans() for mistake in watch_mistakes(plan)]


def check_followed_models(app_configs: Sequence[AppConfig] | None, **kwargs: Any) -> list[CheckMessage]:
    """Audited models that cannot have triggers in any database."""
    return [_unrecorded(found) for model in triggers.followed_models() if (found := triggers.unrecordable(model))]


def check_triggers(
    app_configs: Sequence[AppConfig] | None, databases: Sequence[str] | None = None, **kwargs: Any
) -> list[CheckMessage]:
    """Tables followed by plans or by the audit log whose triggers are missing, or that cannot have triggers."""
    if sys.argv[1:2] == ["migrate"]:
        return []  # the command runs this check before it repairs the problem
    if any(identities.mistakes()):
        return []  # the triggers need valid names of models; E050 reports the invalid ones
    found: list[CheckMessage] = []
    for alias in databases or ():
        try:
            if (plans() or triggers.followed_models()) and capture.is_ready(alias):
                found += [*_without_triggers(alias), *_without_key(alias), *_unfollowed(alias)]
                found += _without_rights(alias)
            if connections[alias].vendor == "postgresql":
                found += [_unrecorded(each) for each in triggers.unrecorded(alias)]
        except OperationalError:
            continue  # this check has no repair for a database that does not answer
    return found


def _without_triggers(alias: str) -> Iterator[CheckMessage]:
    wrong = [each for each in capture.tables(alias) if each.state in ("missing", "outdated")]
    if not wrong:
        return
    rights = {each.table: row_changes.rights(alias, each.table, capture.PREFIXES[each.purpose]) for each in wrong}
    refused = [table for table, has in rights.items() if not has.are_enough]
    hint = f"Run: manage.py migrate --database {alias}"
    if refused:
        role, schema = rights[refused[0]][:2]
        grants = [f"GRANT TRIGGER ON {table} TO {role};" for table in refused if not rights[table].on_table]
        if not all(rights[table].in_schema for table in refused):
            grants.append(f"GRANT CREATE ON SCHEMA {schema} TO {role};")
        grant = f"Let the owner run {' '.join(grants)} and then run it. " if grants else ""
        hint += (
            f", as a role that may do it: {role} may not. {grant}Or let a role that may, and that has the rights of "
            f"Duebox on its tables, run the output of: manage.py duebox capture --sql --database {alias}"
        )
    whose = {capture.PLANS: "plans follow", capture.AUDIT: "the audit log follows"}
    which = " and ".join(dict.fromkeys(whose[each.purpose] for each in wrong))
    listed = _listed([*dict.fromkeys(f"those on {each.table} are {each.state}" for each in wrong)])
    yield Warning(
        f"Triggers on tables that {which} are not installed in database {alias!r}: {listed}. Until they are, plans "
        f"notice only saves and deletes through Django, and the audit log records nothing, or uses an old policy.",
        hint=hint,
        id="duebox.W023",
    )


def _without_key(alias: str) -> Iterator[CheckMessage]:
    if not triggers.has_key(alias):
        yield Warning(
            f"The triggers of the audit log in database {alias!r} hash values with another key than the current "
            "setting, or with none, so equal values get different hashes.",
            hint=f"Run: manage.py migrate --database {alias}",
            id="duebox.W023",
        )


def _unrecorded(each: triggers.Unrecorded) -> CheckMessage:
    return Error(
        f"{each.model._meta.label} cannot have triggers, because {each.why}: its changes are not recorded in the audit "
        "log.",
        hint=each.repair,
        id="duebox.E047",
    )


def _without_rights(alias: str) -> Iterator[CheckMessage]:
    """Audited tables without triggers where this role may not install them."""
    for each in capture.tables(alias):
        if each.purpose != capture.AUDIT or each.state != "missing":
            continue
        rights = row_changes.rights(alias, each.table, capture.PREFIXES[capture.AUDIT])
        if not rights.are_enough:
            yield Error(
                f"Table {each.table} in database {alias!r} has no triggers, and the role {rights.role} may not install "
                f"them: changes of {_listed([*each.sources])} are not recorded in the audit log.",
                hint=(
                    f"Let a role that may do it run: manage.py migrate --database {alias}. Or let it run the "
                    f"output of: manage.py duebox capture --sql --database {alias}"
                ),
                id="duebox.E047",
            )


def _unfollowed(alias: str) -> Iterator[CheckMessage]:
    for each in capture.unfollowed(alias):
        yield Warning(
            f"{each.model._meta.label} cannot have triggers, because {each.why}: plans that follow it "
            f"({_listed([*each.plans])}) notice saves and deletes through Django, but not QuerySet.update(), bulk "
            f"operations and raw SQL.",
            hint=(
                "Call sync of the plan after these, or leave them to the daily reconcile. If that is enough, put "
                "'duebox.W024' into SILENCED_SYSTEM_CHECKS."
            ),
            id="duebox.W024",
        )


def _declare(event: str, names: list[str]) -> str:
    near = did_you_mean(event, names, cutoff=0.75, capital=True)
    hint = f"{near} If not, declare" if near else "Declare"
    inner = event.removeprefix("public.")
    if inner != event:
        return f"{hint} the public fields of {inner!r} with public={{...}}; Duebox then emits it."
    return f"{hint} it with @duebox.event({event!r}) above a class in events.py."


# The next two run only with `check --deploy`. The other checks run at the start of every command, where half a second
# and a warning would be too much for a problem that does not affect Duebox itself.


def check_system_zones(app_configs: Sequence[AppConfig] | None, **kwargs: Any) -> list[CheckMessage]:
    ours = zones.current()
    try:
        other = zones.from_tzdata() if ours.source == "system" else zones.from_system()
    except (WhenError, ImportError, OSError):
        return []  # there is no other copy to compare with
    now = clock.now()
    names = disagreements(ours, other, now, now + A_YEAR)
    whose = "The tzdata package" if other.source == "tzdata" else "The operating system"
    return _zones_differ(ours, f"{whose} ({other.release})", names, _repair(ours, other))


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
        f"Duebox plans with {_named(ours)}, which is right; SQL with AT TIME ZONE is not. "
        "Upgrade PostgreSQL or, where it reads the zone files of its system, those."
    )
    return _zones_differ(ours, f"PostgreSQL on {alias!r}", names, hint)


def _zones_differ(ours: ZoneDatabase, whose: str, names: list[str], hint: str) -> list[CheckMessage]:
    if not names:
        return []
    count = f"{len(names)} zone{'' if len(names) == 1 else 's'}"
    return [
        Warning(
            f"{whose} disagrees with Duebox ({_named(ours)}) about the local time of {count} in the coming "
            f"year: {_listed(names)}.",
            hint=hint,
            id="duebox.W005",
        )
    ]


def _repair(ours: ZoneDatabase, other: ZoneDatabase) -> str:
    system_ours = ours.source == "system"
    if "unknown" not in (ours.release, other.release) and other.release > ours.release:
        newer = "Upgrade the system's zone files, or set DUEBOX['TZ_SOURCE'] = 'tzdata'."
        return f"Duebox plans with outdated rules. {newer if system_ours else 'Run: pip install --upgrade tzdata'}"
    follow = "Upgrade the package: pip install --upgrade tzdata"
    if not system_ours:
        follow = "Upgrade the system's zone files, or set DUEBOX['TZ_SOURCE'] = 'system' to use them."
    return f"Duebox plans with {_named(ours)}, which is right; other programs on this machine are not. {follow}"


def _named(database: ZoneDatabase) -> str:
    return f"{database.source} {database.release}"


def _probes(database: ZoneDatabase) -> Iterator[ZoneProbe]:
    """Moments around each clock change of the coming year, and one each month to find changes that only others have."""
    now = clock.now().replace(microsecond=0)
    for name in database.names:
        if "/" not in name:
            continue  # PostgreSQL treats CET and similar names as abbreviations
        rules = database.zone(name)
        changes = [change.instant for change in clock_changes(name, now, now + A_YEAR, database=database)]
        for at in (*(now + step * A_MONTH for step in range(13)), *changes, *(one - A_SECOND for one in changes)):
            offset = at.astimezone(rules).utcoffset()
            assert offset is not None
            yield ZoneProbe(name, at, round(offset.total_seconds()))


def register_checks() -> None:
    for check in (
        check_settings,
        check_settings_of_another_name,
        check_pools,
        check_aggregate_names,
        check_database_kind,
        check_schema_files,
        check_declared_types,
        check_event_spelling,
        check_event_names,
        check_versions_of_handlers,
        check_planned_data,
        check_watched_fields,
        check_followed_models,
    ):
        register(check, "duebox")
    for check in (check_migrations, check_triggers):
        register(check, Tags.database, "duebox")
    register(check_system_zones, "duebox", deploy=True)
    register(check_database_zones, Tags.database, "duebox", deploy=True)
