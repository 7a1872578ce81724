"""Plans: moments that follow the rows of a model.

Say once how reminders hang on an appointment or greetings on a birthday. Whenever a row is saved or deleted its
schedules are planned anew in the same transaction; `sync` does it for many rows at once, and `reconcile` for all of
them, which heals what `QuerySet.update()` passed by.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any, ClassVar

from django.db import models

from duebox import following
from duebox.drafts import Draft
from duebox.exceptions import InvalidEvent, InvalidPlan
from duebox.firing import guard, unguard
from duebox.intent import Intent
from duebox.planner import Wanted
from duebox.promise import refuse_spelling
from duebox.schedule import alias_in_use, project_zone
from duebox.syncing import Progress, Rows, Synced, reconcile_rows, sync_rows
from duebox.when import CatchUp, Fold, Gap, Late, Offset, Reminder, Rule, Timetable, at_offset, daily, reminder
from duebox.when.policy import choose

_plans: dict[str, Plan] = {}


class Plan:
    """Subclass it in `plans.py` of an app; the class is found and connected by itself.

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
    grace: ClassVar[timedelta] = timedelta(hours=12)

    def anchor(self, row: Any) -> datetime | None:
        """The moment that `offsets` count from: local if naive, an instant if aware. None: nothing to plan."""
        raise NotImplementedError

    def rule(self, row: Any) -> Rule | None:
        """The rule that the row's moments follow. None: nothing to plan."""
        raise NotImplementedError

    def zone(self, row: Any) -> str:
        """Whose clock counts; by default the project's."""
        return project_zone()

    def when(self, row: Any) -> bool:
        """Whether there is anything to plan for the row."""
        return True

    def data(self, row: Any) -> Mapping[str, Any]:
        """The data of the event; the event is about the row in any case."""
        return {}

    def organization(self, row: Any) -> object:
        return None

    def queryset(self) -> models.QuerySet[Any]:
        """All rows that are planned for; add `select_related` here for what the other methods look at."""
        return self.model._default_manager.all()

    def still_valid(self, rows: models.QuerySet[Any]) -> models.QuerySet[Any]:
        """Asked again when the moment has come, for all that are due at once: those of the rows that still count."""
        return rows

    @classmethod
    def sync(cls, rows: Rows, *, using: str | None = None, dry_run: bool = False) -> Synced:
        """Plan anew for these rows, a queryset or primary keys: after `QuerySet.update()`, `bulk_create()` and such."""
        alias = using or getattr(rows, "_db", None) or alias_in_use()
        return sync_rows(plan_of(cls), rows, using=alias, dry_run=dry_run)

    @classmethod
    def reconcile(cls, *, using: str | None = None, dry_run: bool = False, progress: Progress | None = None) -> Synced:
        """Plan anew for every row, and cancel what belongs to rows that are gone."""
        return reconcile_rows(plan_of(cls), using=using or alias_in_use(), dry_run=dry_run, progress=progress)

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if getattr(cls, "model", None) is not None:
            _register(cls())

    @property
    def aggregate_type(self) -> str:
        return self.model._meta.model_name or ""

    def draft(self) -> Draft:
        """What the events of many rows have in common."""
        return Draft(self.event, self.aggregate_type)

    def wanted(self, row: Any, draft: Draft) -> Iterator[Wanted]:
        """The schedules that the row should have."""
        if not self.when(row):
            return
        zone = self.zone(row)
        tables = [(mark, self._policies.table.but_for(rule, zone)) for mark, rule in self._rules(row)]
        if not tables:
            return
        event = draft.about(row.pk, self.data(row), self.organization(row))
        for mark, table in tables:
            yield Wanted(f"{self.name}:{row.pk}{mark}", event, self._intent(table), self.name)

    @cached_property
    def _policies(self) -> Intent:
        """What the intents of all rows have in common."""
        table = Timetable(rule=daily("00:00"), gap=self.gap, fold=self.fold, flex=self.flex)  # type: ignore[arg-type]
        return Intent(table=table, catch_up=self.catch_up or CatchUp(), late=choose(Late, self.late), grace=self.grace)

    def _rules(self, row: Any) -> Iterator[tuple[str, Rule]]:
        if not self.offsets:
            rule = self.rule(row)
            return iter(()) if rule is None else iter([("", rule)])
        anchor = self.anchor(row)
        return iter(()) if anchor is None else ((f":{by}", reminder(anchor, by)) for by in self.offsets)

    def _intent(self, table: Timetable) -> Intent:
        intent = self._policies.but_for(table)
        if isinstance(table.rule, Reminder) and table.rule.by.is_before and self.catch_up is None:
            # What reminds of a moment is of no use after it.
            lead = _lead(table, table.rule)
            return replace(intent, catch_up=CatchUp(window=lead), grace=min(self.grace, lead))
        return intent


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
    following.disconnect(name)
    unguard(name)


def _register(plan: Plan) -> None:
    if not plan.name:
        type(plan).name = f"{plan.model._meta.app_label}.{type(plan).__name__}"
    _refuse_mistakes(plan)
    if plan.name in _plans:
        remove(plan.name)  # its module was imported again
    _plans[plan.name] = plan
    if type(plan).still_valid is not Plan.still_valid:
        guard(plan.name, lambda using, ids: _still_valid(plan, using, ids))
    following.connect(plan)


def _refuse_mistakes(plan: Plan) -> None:
    kind = type(plan)
    taken = _plans.get(plan.name)
    if taken is not None and (type(taken).__module__, type(taken).__qualname__) != (kind.__module__, kind.__qualname__):
        raise InvalidPlan(
            f"Plan name {plan.name!r} is taken by {type(taken).__qualname__}; give {kind.__name__} a name."
        )
    if not isinstance(getattr(plan, "event", None), str):
        raise InvalidPlan(f"{plan.name} emits nothing; declare event = 'appointment.reminder' or the like.")
    try:
        refuse_spelling(plan.event)
    except InvalidEvent as error:
        raise InvalidPlan(f"{plan.name} cannot emit its event. {error}") from None
    if len(set(map(str, plan.offsets))) < len(plan.offsets):
        raise InvalidPlan(f"{plan.name} has an offset twice in {', '.join(map(str, plan.offsets))}; take one out.")
    needs, other = ("anchor", "rule") if plan.offsets else ("rule", "anchor")
    if getattr(kind, needs) is getattr(Plan, needs):
        raise InvalidPlan(f"{plan.name} has no moments; define {needs}(self, row), or offsets with anchor(self, row).")
    if getattr(kind, other) is not getattr(Plan, other):
        raise InvalidPlan(f"{plan.name} has both offsets and a rule; make two plans of it.")


def _lead(table: Timetable, rule: Reminder) -> timedelta:
    """How long the reminder comes before its anchor, or a little less: days may be short, and so may months."""
    if not rule.by.days and not rule.by.months:
        return rule.by.length
    policies = {"gap": table.gap, "fold": table.fold}
    due = at_offset(rule.anchor, rule.by, table.zone, **policies)
    anchor = at_offset(rule.anchor, Offset(), table.zone, **policies)
    return min(rule.by.length, anchor.instant - due.instant) if due and anchor else rule.by.length


def _still_valid(plan: Plan, using: str, ids: Collection[str]) -> set[str]:
    found = plan.still_valid(plan.queryset().using(using).filter(pk__in=list(ids)))
    return {str(pk) for pk in found.values_list("pk", flat=True)}
