"""`Plan`: schedules that follow the rows of a model.

Declare once which reminders an appointment has, or which greetings a birthday. When a row is saved or deleted, its
schedules are planned again at once, in the caller's transaction. Changes by `QuerySet.update()`, bulk operations and
raw SQL are noted by triggers and planned by a worker within milliseconds; a schedule does not fire before. `sync` plans
many rows at once, and `reconcile` all of them.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any, ClassVar
from zoneinfo import ZoneInfo

from django.apps import apps
from django.core.exceptions import FieldDoesNotExist
from django.db import models

from duebox.conf import conf
from duebox.context.current import names_async_form
from duebox.contracts.enforce import Own, contract_of, refuse_incomplete
from duebox.events.emit import NewEvent, fact_row
from duebox.events.fact import FactRow
from duebox.events.identities import actor_of, aggregate_type, identity, key_from_text, text_of_key
from duebox.events.payload import encode
from duebox.exceptions import InvalidPlan, did_you_mean
from duebox.schedules import plan_signals
from duebox.schedules.fire import follow, guard, unfollow, unguard
from duebox.schedules.intent import Intent, Template
from duebox.schedules.plan_sync import Progress, Rows, Synced, reconcile_rows, sync_rows
from duebox.schedules.planner import Wanted, revive
from duebox.schedules.schedule import Entities, Key, alias_in_use, asked_by, chosen, one_transaction, project_zone
from duebox.store import run_sql, schedules
from duebox.store.row_changes import take_of
from duebox.store.run_sql import Busy, any_of, lock_timeout
from duebox.when import (
    CatchUp,
    Fold,
    Gap,
    Late,
    Offset,
    Reminder,
    Rule,
    Timetable,
    UnknownZone,
    WhenError,
    at_offset,
    daily,
    offset,
    reminder,
)
from duebox.when.policy import choose
from duebox.when.replan import GRACE


class Draft:
    """The parts that the events of a plan have in common, computed once: with a million rows that takes a third of the
    time of `sync`.

    Make one for each batch: the event that is being handled, and with it the correlation id, may differ in the next.
    """

    def __init__(self, type: str, aggregate_type: str) -> None:
        settings = conf()
        contract = contract_of(NewEvent(type=type), settings)
        self._check = contract.kind.check if contract.kind else None
        self._limit, self._depth = settings.PAYLOAD_LIMIT_BYTES, settings.PAYLOAD_DEPTH
        self._kind, self._aggregate_type = contract.kind, aggregate_type
        plain = fact_row(NewEvent(type=Own("duebox.draft")), settings, to_come=True)
        self._base = plain._replace(type=contract.name, version=contract.version, aggregate_type=aggregate_type)

    def about(
        self, row: models.Model, data: Mapping[str, Any] | None, organization: object, actor: object = None
    ) -> FactRow:
        """The event about this row, by `actor` or the current actor."""
        whose = identity(organization, "organization")
        if self._kind is not None:
            refuse_incomplete(self._kind, self._aggregate_type, whose)
        text = encode(data, limit=self._limit, depth=self._depth, check=self._check)
        base = self._base
        who = actor_of(actor) if actor is not None else None
        # Not `_replace`, which takes three times as long.
        return FactRow(
            base.id, base.type, base.version, base.occurred, base.aggregate_type, identity(row, "about"), whose,
            base.correlation, base.causation, who.to_json() if who else base.actor, base.producer, base.key, text,
            base.metadata,
        )  # fmt: skip


REFRESH_SECONDS = 0.02
"""How long a schedule that is due waits for a row that another transaction holds, before the others fire without it."""
REFRESH_AT_MOST_SECONDS = 0.2
_plans: dict[str, Plan] = {}


class Plan:
    """Subclass it in `plans.py` of an app, which Duebox imports.

    Either `offsets` and `anchor` (reminders before and after a moment of the row), or `rule` (a birthday, a weekly
    review). All methods take the row; override those you need.
    """

    model: ClassVar[type[models.Model]]
    event: ClassVar[str]
    name: ClassVar[str] = ""
    offsets: ClassVar[tuple[Offset, ...]] = ()
    follows: ClassVar[Mapping[type[models.Model], str | tuple[str, ...]]] = {}
    """Other models that a row's moments depend on, each with the lookup that leads to it, or several of them:
    `{Patient: "patient", User: ("doctor", "nurse")}`."""
    gap: ClassVar[Gap | str] = Gap.SHIFT_FORWARD
    fold: ClassVar[Fold | str] = Fold.FIRST
    flex: ClassVar[timedelta] = timedelta(0)
    catch_up: ClassVar[CatchUp | None] = None
    late: ClassVar[Late | str] = Late.FIRE_NOW
    grace: ClassVar[timedelta] = GRACE
    watch: ClassVar[tuple[str, ...]] = ()
    """Fields of the model whose changes count where a statement changes rows without Django's signals: one that changes
    only other fields is not noted. Empty: all fields. Saves through Django are always planned."""
    restore_on_move: ClassVar[bool] = False
    """Whether reminders that were cancelled are planned again when their anchor moves."""

    def anchor(self, row: Any) -> datetime | None:
        """The moment that `offsets` count from: local if naive, an instant if aware. None: nothing to plan."""
        raise NotImplementedError

    def rule(self, row: Any) -> Rule | None:
        """The rule that the row's moments follow. None: nothing to plan."""
        raise NotImplementedError

    def zone(self, row: Any) -> str | ZoneInfo:
        """The time zone of the row; by default, or if empty, that of the project."""
        return project_zone()

    def when(self, row: Any) -> bool:
        """Whether there is anything to plan for the row."""
        return True

    def data(self, row: Any) -> Mapping[str, Any]:
        """The data of the event; the event is about the row in any case."""
        return {}

    def organization(self, row: Any) -> object:
        return None

    def actor(self, row: Any) -> object:
        """Who causes the events of the row: as in `emit`. None: the actor of the request that saves the row."""
        return None

    def queryset(self) -> models.QuerySet[Any]:
        """All rows that are planned for; add `select_related` here for what the other methods look at."""
        return self.model._default_manager.all()

    def still_valid(self, rows: models.QuerySet[Any]) -> models.QuerySet[Any]:
        """The rows that are still valid. Called when schedules are due, for all due rows together."""
        return rows

    @classmethod
    def sync(cls, rows: Rows, *, using: str | None = None, dry_run: bool = False) -> Synced:
        """Plan these rows again, a queryset or primary keys: now and in this transaction, while a worker would do it
        after the commit. Call it also if a plan depends on data outside of the rows."""
        alias = using or getattr(rows, "_db", None) or alias_in_use()
        return sync_rows(plan_of(cls), rows, using=alias, dry_run=dry_run)

    @classmethod
    def reconcile(cls, *, using: str | None = None, dry_run: bool = False, progress: Progress | None = None) -> Synced:
        """Plan every row again, and cancel the schedules of rows that no longer exist."""
        return reconcile_rows(plan_of(cls), using=using or alias_in_use(), dry_run=dry_run, progress=progress)

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if getattr(cls, "model", None) is not None:
            _register(cls())

    @property
    def aggregate_type(self) -> str:
        return aggregate_type(self.model)

    def draft(self) -> Draft:
        """What the events of many rows have in common."""
        return Draft(self.event, self.aggregate_type)

    def wanted(self, row: Any, draft: Draft) -> Iterator[Wanted]:
        """The schedules that the row should have."""
        if not self.when(row):
            return
        rules = self._rules(row)
        if not rules:
            return
        intents = self._intents(row, rules)
        actor = self.actor(row)
        event = draft.about(row, self.data(row), self.organization(row), actor)
        for mark, intent in intents:
            yield Wanted(f"{self.name}:{event.aggregate_id}{mark}", event, intent, self.name, actor is not None)

    def _rules(self, row: Any) -> list[tuple[str, Rule]]:
        if not self.offsets:
            rule = self.rule(row)
            return [] if rule is None else [("", rule)]
        anchor = self.anchor(row)
        return [] if anchor is None else [(f":{by}", reminder(anchor, by)) for by in self.offsets]

    def _intents(self, row: Any, rules: list[tuple[str, Rule]]) -> list[tuple[str, Intent]]:
        zone = self.zone(row) or project_zone()
        try:
            return [(mark, self._intent(rule, zone)) for mark, rule in rules]
        except UnknownZone as error:
            where = f"Plan {self.name} cannot plan for {self.aggregate_type} {text_of_key(row.pk)}. "
            raise UnknownZone(error.name, error.release, error.nearest, where=where) from None

    def _intent(self, rule: Rule, zone: str | ZoneInfo) -> Intent:
        intent = self._template.intent(rule, zone)
        if isinstance(rule, Reminder) and rule.by.is_before and self.catch_up is None:
            # What reminds of a moment is of no use after it.
            lead = _lead(intent.table, rule)
            return replace(intent, catch_up=CatchUp(window=lead), grace=min(self.grace, lead))
        return intent

    @cached_property
    def _template(self) -> Template:
        """What the intents of all rows have in common."""
        table = Timetable(rule=daily("00:00"), zone="UTC", gap=self.gap, fold=self.fold, flex=self.flex)  # type: ignore[arg-type]
        late = choose(Late, self.late)
        return Template(Intent(table=table, catch_up=self.catch_up or CatchUp(), late=late, grace=self.grace))


@names_async_form
def restore(key: Key | None = None, *, about: Entities = None, using: str | None = None) -> int:
    """Restore schedules that were cancelled: by key, or all of an entity. Returns how many will fire.

    Schedules of a plan are planned from the current row, others from their own rule. Occurrences in the past do not
    fire.
    """
    alias = using or alias_in_use()
    with one_transaction(alias):
        cancelled = chosen(alias, key, about).exclude(opt_out="")
        by_plan: dict[str, dict[str, str]] = {}
        # Not locked yet: a save locks its row first, then its schedules, and so must this.
        for name, pk, each in schedules.listed(cancelled.values_list("plan", "aggregate_id", "key")):
            by_plan.setdefault(name if name in _plans else "", {})[each] = pk
        others = by_plan.pop("", {})
        count = sum(_restore(_plans[name], found, alias) for name, found in sorted(by_plan.items()))
        rows = schedules.locked(cancelled.filter(key__in=others)) if others else []
        return count + revive(alias, rows, run_sql.now(alias), why=asked_by())


def _restore(plan: Plan, pks: Mapping[str, str], using: str) -> int:
    rows = sorted({key_from_text(plan.model, pk) for pk in pks.values()})
    sync_rows(plan, rows, using=using, strict=True, restored=set(pks), why=asked_by())
    return schedules.rows(using).scheduled().filter(any_of("key", pks)).count()


def plans() -> tuple[Plan, ...]:
    """All that are declared."""
    return tuple(_plans.values())


def plan_of(cls: type[Plan]) -> Plan:
    """The one instance of a declared plan."""
    found = next((plan for plan in _plans.values() if type(plan) is cls), None)
    if found is None:
        raise InvalidPlan(f"{cls.__name__} plans for no model; declare it with model = ...")
    return found


def remove(name: str) -> None:
    """Forget a plan; for tests and interactive work."""
    del _plans[name]
    plan_signals.disconnect(name)
    unguard(name)
    unfollow(name)


def _register(plan: Plan) -> None:
    if not plan.name:
        type(plan).name = f"{plan.model._meta.app_label}.{type(plan).__name__}"
    _refuse_mistakes(plan)
    if plan.name in _plans:
        remove(plan.name)  # its module was imported again
    _plans[plan.name] = plan
    if type(plan).still_valid is not Plan.still_valid:
        guard(plan.name, lambda using, ids: _still_valid(plan, using, ids))
    follow(plan.name, lambda: _sources(plan), lambda using, ids: refresh(plan, using, ids))
    plan_signals.connect(plan)


def _sources(plan: Plan) -> tuple[str, ...]:
    """The types of the rows that a plan follows besides those of its own model."""
    return tuple(sorted({aggregate_type(model) for model in plan.follows}))


def _refuse_mistakes(plan: Plan) -> None:
    kind = type(plan)
    taken = _plans.get(plan.name)
    if taken is not None and (type(taken).__module__, type(taken).__qualname__) != (kind.__module__, kind.__qualname__):
        raise InvalidPlan(
            f"Plan name {plan.name!r} is taken by {type(taken).__qualname__}; give {kind.__name__} a name."
        )
    if not isinstance(getattr(plan, "event", None), str):
        raise InvalidPlan(f"{plan.name} emits nothing; declare event = 'appointment.reminder_due' or the like.")
    kind.offsets = _offsets(plan)
    kind.watch = _watched(plan)
    if len(set(map(str, plan.offsets))) < len(plan.offsets):
        raise InvalidPlan(f"{plan.name} has an offset twice in {', '.join(map(str, plan.offsets))}; take one out.")
    needs, other = ("anchor", "rule") if plan.offsets else ("rule", "anchor")
    if getattr(kind, needs) is getattr(Plan, needs):
        raise InvalidPlan(f"{plan.name} has no moments; define {needs}(self, row), or offsets with anchor(self, row).")
    if getattr(kind, other) is not getattr(Plan, other):
        raise InvalidPlan(f"{plan.name} has both offsets and a rule; make two plans of it.")
    if plan.restore_on_move and not plan.offsets:
        raise InvalidPlan(f"{plan.name} has a rule, which has no anchor that moves; take restore_on_move out.")


def _offsets(plan: Plan) -> tuple[Offset, ...]:
    """The offsets of a plan, those that are ISO 8601 text read."""
    given: Any = plan.offsets
    if not isinstance(given, tuple | list):
        raise InvalidPlan(f"offsets of {plan.name} is {given!r}; write a tuple, as in offsets = (days(-1), hours(-2)).")
    for each in given:
        if not isinstance(each, Offset | str):
            raise InvalidPlan(
                f"offsets of {plan.name} has {each!r}; write days(-1), hours(-2), minutes(-15) or '-P1D'. A day is one "
                "of the calendar, 24 hours are not."
            )
    try:
        return tuple(each if isinstance(each, Offset) else offset(each) for each in given)
    except WhenError as error:
        raise InvalidPlan(f"offsets of {plan.name}: {error}") from None


def _watched(plan: Plan) -> tuple[str, ...]:
    """The fields that a plan watches. Before the models are ready there is no telling which fields they have: then a
    system check refuses those that there are not."""
    given: Any = plan.watch
    if not isinstance(given, tuple | list) or not all(isinstance(each, str) for each in given):
        raise InvalidPlan(
            f"watch of {plan.name} is {given!r}; write a tuple of names, as in watch = ('starts_at', 'status')."
        )
    if apps.models_ready and (wrong := watch_mistakes(plan)):
        raise InvalidPlan(" ".join(wrong))
    return tuple(given)


def watched_columns(plan: Plan) -> tuple[str, ...]:
    """The columns of the fields that a plan watches; none for all of them, also where one is not known."""
    columns = [_column(plan.model, name) for name in plan.watch]
    return tuple(sorted({each for each in columns if each})) if all(columns) else ()


def watch_mistakes(plan: Plan) -> list[str]:
    """The problems of the fields that a plan watches, a sentence for each."""
    wrong = [name for name in plan.watch if not _column(plan.model, name)]
    return [
        f"{plan.name} watches {name!r}, which is no field of {plan.model._meta.label} with a column; "
        f"{_near_field(plan.model, name)}"
        for name in wrong
    ]


def _near_field(model: type[models.Model], name: str) -> str:
    names = [field.name for field in model._meta.concrete_fields]
    return did_you_mean(name, names) or f"there are {', '.join(names)}."


def _column(model: type[models.Model], name: str) -> str | None:
    """None for what there is not, and for what is stored elsewhere: many-to-many fields and reverse relations."""
    try:
        field = model._meta.get_field(name)
    except FieldDoesNotExist:
        return None
    return getattr(field, "column", None) if getattr(field, "concrete", False) else None


def _lead(table: Timetable, rule: Reminder) -> timedelta:
    """How long the reminder comes before its anchor, or a little less: days may be short, and so may months."""
    if not rule.by.days and not rule.by.months:
        return rule.by.length
    policies = {"gap": table.gap, "fold": table.fold}
    due = at_offset(rule.anchor, rule.by, table.zone, **policies)
    anchor = at_offset(rule.anchor, Offset(), table.zone, **policies)
    return min(rule.by.length, anchor.instant - due.instant) if due and anchor else rule.by.length


def refresh(plan: Plan, using: str, ids: Collection[str]) -> tuple[set[str], set[str]]:
    """Plan changed rows again, just before their schedules fire. Returns the ids of schedules that are up to date, and
    stay so until the transaction ends, since their rows are locked; and of those that cannot be planned. A row that
    another transaction has locked is skipped, and the others do not wait for long."""
    deadline = time.monotonic() + REFRESH_AT_MOST_SECONDS
    parts = [list(ids)]
    fresh: set[str] = set()
    failed: set[str] = set()
    while parts and time.monotonic() < deadline:
        part = parts.pop()
        try:
            with lock_timeout(using, REFRESH_SECONDS):
                if plan_signals.is_only_follower(plan):
                    take_of(using, plan.aggregate_type, part)
                synced = sync_rows(plan, sorted(key_from_text(plan.model, each) for each in part), using=using)
        except Busy:
            half = len(part) // 2
            parts += [part[:half], part[half:]] if half else []
        else:
            failed |= synced.failed.keys() & {*part}
            fresh |= {*part} - failed
    return fresh, failed


def _still_valid(plan: Plan, using: str, ids: Collection[str]) -> set[str]:
    pks = [key_from_text(plan.model, each) for each in ids]
    found = plan.still_valid(plan.queryset().using(using).filter(pk__in=pks))
    return {text_of_key(pk) for pk in found.values_list("pk", flat=True)}
