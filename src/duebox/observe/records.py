"""What is stored about one thing, loaded at once and by indexes: its events, their deliveries and attempts, its
schedules and their log lines, and the workers, plans and destinations that concern them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import OuterRef, Q, Subquery
from django.db.models.functions import Now

from duebox.conf import conf
from duebox.events.address import Address
from duebox.events.subscribers import receivers_of
from duebox.models import Attempt, AuditEntry, Delivery, DestinationState, Event, Schedule, ScheduleLog, Worker
from duebox.observe.find import Target
from duebox.schedules.intent import read_intent
from duebox.schedules.planner import unlimited
from duebox.schedules.plans import Plan, plans
from duebox.schedules.schedule import project_zone
from duebox.store import run_sql
from duebox.store.run_sql import migrated
from duebox.when import Gap, Occurrence, WhenError, between, clock_changes

MOST_EVENTS = 100
MOST_ATTEMPTS = 500
MOST_LINES = 200
MOST_EFFECTS = 20
DAYS = 31.0
"""How far back and ahead the occurrences of a rule are looked at."""
_A_DAY = timedelta(days=1)
_FAILED = ("retried", "dead")


@dataclass(frozen=True, slots=True)
class Head:
    """The first delivery of an ordered stream, for which another one waits."""

    delivery: Delivery
    event: Event | None
    failure: Attempt | None
    """Its last one."""


@dataclass(frozen=True, slots=True)
class PlanState:
    """What a plan says about a row now."""

    name: str
    event: str
    answer: str
    """`plans`, or why it plans nothing: `no row`, `not in queryset`, `condition`, `no moment`, `error`."""
    error: str = ""


@dataclass(frozen=True, slots=True)
class Jump:
    """A local time that a rule names and that clocks jumped over, so that it was skipped."""

    key: str
    """Of the schedule."""
    local: datetime
    at: datetime
    """When clocks jumped."""
    before: timedelta
    after: timedelta


@dataclass(frozen=True, slots=True)
class Records:
    """Rows as they were loaded. Those that were left out, because there are too many, are named in `more`."""

    target: Target
    now: datetime
    zone: str
    """Of the project: for times that belong to no zone of their own."""
    workers: int = 0
    """With a fresh heartbeat."""
    events: Sequence[Event] = ()
    related: dict[UUID, Event] = field(default_factory=dict)
    """What caused them, by id."""
    effects: Sequence[Event] = ()
    """What they caused, if that is not among the events."""
    attempts: Sequence[Attempt] = ()
    deliveries: Sequence[Delivery] = ()
    """Those that are stored; what was delivered is not. With `state`."""
    taken: frozenset[UUID] = frozenset()
    """Events that a handler or destination has taken, by deliveries or attempts that may be left out above."""
    runners: dict[int, str] = field(default_factory=dict)
    """The names of living workers, by lease."""
    heads: dict[int, Head] = field(default_factory=dict)
    """By the id of the delivery that waits for it."""
    destination_states: dict[str, DestinationState] = field(default_factory=dict)
    receivers: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """The names of those that take a type of event today."""
    schedules: Sequence[Schedule] = ()
    logged: Sequence[ScheduleLog] = ()
    plans: Sequence[PlanState] = ()
    guarded: frozenset[str] = frozenset()
    """Plans that are asked again by `still_valid` before they fire."""
    jumps: Sequence[Jump] = ()
    following: dict[str, Sequence[Occurrence]] = field(default_factory=dict)
    """By the key of a schedule, what its rule names after the next one."""
    audit: Sequence[AuditEntry] = ()
    more: tuple[str, ...] = ()


def load(target: Target, *, days: float = DAYS, audit: bool = True, using: str | None = None) -> Records:
    """Without `audit`, entries of the audit log are left out."""
    alias = using or conf().DATABASE
    with migrated(alias):
        return _Loading(alias, timedelta(days=days), audit=audit).of(target)


class _Loading:
    def __init__(self, using: str, span: timedelta, *, audit: bool) -> None:
        self._using = using
        self._span = span
        self._audit = audit
        self._now = run_sql.now(using)
        self._more: list[str] = []

    def of(self, target: Target) -> Records:
        find = {
            "event": self._of_event,
            "delivery": self._of_delivery,
            "schedule": self._of_schedule,
            "entity": self._of_entity,
            "correlation": self._of_correlation,
        }[target.kind]
        found: Records = find(Records(target, self._now, project_zone()))
        return self._surrounded(found)

    def _of_event(self, records: Records) -> Records:
        events = list(Event.objects.using(self._using).filter(id=records.target.id))
        return replace(self._with_deliveries(records, events), **self._schedules_of(events))

    def _of_delivery(self, records: Records) -> Records:
        row = Delivery.objects.using(self._using).filter(id=int(records.target.id)).first()
        events = list(Event.objects.using(self._using).filter(id=row.event_id)) if row else []
        found = replace(self._with_deliveries(records, events), **self._schedules_of(events))
        if row is None:
            return found
        only = list(Delivery.objects.using(self._using).with_state().filter(id=row.id))
        attempts = Attempt.objects.using(self._using).filter(event_id=row.event_id, delivery_id__in=[0, row.id])
        return replace(found, deliveries=only, attempts=list(attempts.order_by("id")))

    def _of_schedule(self, records: Records) -> Records:
        key = records.target.id
        schedules = list(Schedule.objects.using(self._using).with_state().filter(key=key))
        logged = self._newest(ScheduleLog.objects.using(self._using).filter(source=key), MOST_LINES, "log lines")
        events = [event for row in schedules for event in self._fired_by(row, logged)]
        return replace(self._with_deliveries(records, events), schedules=schedules, logged=logged)

    def _of_entity(self, records: Records) -> Records:
        kind, id = records.target.entity
        about = {"aggregate_type": kind, "aggregate_id": id}
        schedules = self._newest(
            Schedule.objects.using(self._using).with_state().filter(**about), MOST_LINES, "schedules"
        )
        logged = self._newest(ScheduleLog.objects.using(self._using).filter(**about), MOST_LINES, "log lines")
        events = self._newest(Event.objects.using(self._using).filter(**about), MOST_EVENTS, "events")
        entries = AuditEntry.objects.using(self._using).filter(entity_type=kind, entity_id=id)
        audit = self._newest(entries, MOST_LINES, "audit entries") if self._audit else []
        found = self._with_deliveries(records, events)
        return replace(found, schedules=schedules, logged=logged, audit=audit, plans=self._plans_of(kind, id))

    def _of_correlation(self, records: Records) -> Records:
        id = records.target.id
        events = self._newest(Event.objects.using(self._using).filter(correlation_id=id), MOST_EVENTS, "events")
        entries = AuditEntry.objects.using(self._using).correlated(id)
        audit = self._newest(entries, MOST_LINES, "audit entries") if self._audit else []
        return replace(self._with_deliveries(records, events), **self._schedules_of(events, id), audit=audit)

    def _newest(self, rows: Any, most: int, what: str) -> list[Any]:
        """The newest of them, oldest first; what is left out is noted."""
        found = list(rows.order_by("-id")[: most + 1])
        if len(found) > most:
            self._more.append(f"only the newest {most} {what} are shown")
        return found[:most][::-1]

    def _with_deliveries(self, records: Records, events: Sequence[Event]) -> Records:
        ids = [event.id for event in events]
        stored = Delivery.objects.using(self._using).filter(event_id__in=ids)
        tried = Attempt.objects.using(self._using).filter(event_id__in=ids)
        deliveries = self._newest(stored.with_state(), MOST_LINES, "deliveries")
        attempts = self._newest(tried, MOST_ATTEMPTS, "attempts")
        taken = {row.event_id for row in deliveries} | {one.event_id for one in attempts if one.subscriber}
        if len(deliveries) == MOST_LINES or len(attempts) == MOST_ATTEMPTS:
            for rows in (stored, tried.exclude(subscriber="")):
                taken |= set(rows.order_by().values_list("event_id", flat=True).distinct())
        causes = {event.causation_id for event in events if event.causation_id} - {*ids}
        return replace(
            records,
            events=events,
            deliveries=deliveries,
            attempts=attempts,
            taken=frozenset(taken),
            related=Event.objects.using(self._using).in_bulk(list(causes)),
            effects=self._effects(events),
        )

    def _effects(self, events: Sequence[Event]) -> list[Event]:
        """Found by the correlation id, which has an index."""
        if len(events) != 1 or not events[0].correlation_id:
            return []
        same = Event.objects.using(self._using).filter(correlation_id=events[0].correlation_id)
        return list(same.filter(causation_id=events[0].id).order_by("id")[:MOST_EFFECTS])

    def _schedules_of(self, events: Sequence[Event], correlation_id: str = "") -> dict[str, Any]:
        """Those that fired the events, and of a request also those that it made for the entities of its events."""
        keys = {about["key"]: about["occurrence"] for event in events if (about := event.metadata.get("schedule"))}
        asked = Q(key__in=keys)
        if correlation_id:
            entities = {(event.aggregate_type, event.aggregate_id) for event in events if event.aggregate_type}
            for kind, id in entities:
                asked |= Q(aggregate_type=kind, aggregate_id=id, correlation_id=correlation_id)
        schedules = list(Schedule.objects.using(self._using).with_state().filter(asked).order_by("id")[:MOST_LINES])
        lines = ScheduleLog.objects.using(self._using).filter(source__in=[row.key for row in schedules])
        if not correlation_id:
            lines = lines.filter(occurrence__in=keys.values())
        return {"schedules": schedules, "logged": self._newest(lines, MOST_LINES, "log lines")}

    def _fired_by(self, row: Schedule, logged: Iterable[ScheduleLog]) -> list[Event]:
        """The last one, and those of the occurrences that its rule names in the time that is looked at."""
        names = {row.fired, *(line.occurrence for line in logged)} - {""}
        names |= {one.key for one in self._occurrences(row, self._now - self._span, self._now)}
        rows = Event.objects.using(self._using).filter(
            type=row.type, idempotency_key__in=[f"{row.key}/{name}" for name in names]
        )
        return self._newest(rows, MOST_EVENTS, "events")

    def _occurrences(self, row: Schedule, since: datetime, until: datetime, **policy: Any) -> list[Occurrence]:
        try:
            table = replace(unlimited(read_intent(row.intent).table), **policy)
            found = []
            for one in between(table, since, until, seed=row.key):
                found.append(one)
                if len(found) == MOST_LINES:
                    break
            return found
        except (WhenError, OverflowError):
            return []

    def _jumps(self, row: Schedule) -> list[Jump]:
        """What clocks jumped over, by a rule that skips such times. Only the days around each jump are looked at."""
        since, until = max(self._now - self._span, row.created_at), self._now + self._span
        try:
            if read_intent(row.intent).table.gap is not Gap.SKIP:
                return []
            changes = clock_changes(row.zone, since, until)
        except (WhenError, OverflowError):
            return []
        return [
            Jump(row.key, one.nominal, change.instant, change.before, change.after)
            for change in changes
            if change.after > change.before
            for one in self._occurrences(row, change.instant - _A_DAY, change.instant + _A_DAY, gap=Gap.SHIFT_FORWARD)
            if one.how.value.startswith("gap_")
        ]

    def _plans_of(self, kind: str, id: str, names: Collection[str] = ()) -> list[PlanState]:
        declared = [each for each in plans() if each.aggregate_type == kind and (not names or each.name in names)]
        return [self._ask(plan, id) for plan in declared]

    def _ask(self, plan: Plan, id: str) -> PlanState:
        """What a plan says about a row as it is now; it runs the plan's own code."""
        try:
            with transaction.atomic(using=self._using):  # after an error, the transaction around it goes on
                return PlanState(plan.name, plan.event, self._answer(plan, id))
        except Exception as error:  # of the plan's own code, or a text that is no primary key
            return PlanState(plan.name, plan.event, "error", f"{type(error).__name__}: {error}")

    def _answer(self, plan: Plan, id: str) -> str:
        pk = plan.model._meta.pk.to_python(id)
        row = plan.queryset().using(self._using).filter(pk=pk).first()
        if row is None:
            there = plan.model._base_manager.using(self._using).filter(pk=pk).exists()
            return "not in queryset" if there else "no row"
        if not plan.when(row):
            return "condition"
        moment = plan.anchor(row) if plan.offsets else plan.rule(row)
        return "plans" if moment is not None else "no moment"

    def _surrounded(self, found: Records) -> Records:
        """Add the workers, destinations, plans and clock changes that concern the rows."""
        # In real time, whatever time a test has travelled to.
        alive = dict(Worker.objects.using(self._using).filter(expires_at__gt=Now()).values_list("id", "name"))
        types = {event.type for event in found.events} | {row.type for row in found.schedules}
        receivers = {each: tuple(one.name for one in receivers_of(each)) for each in types}
        names = {row.subscriber for row in found.deliveries}.union(*receivers.values())
        addresses = [each for each in map(Address.parse, names) if each.kind == "destination"]
        destinations = {str(name) for each in addresses for name in (each, each.whole)}
        rows = [row for row in found.schedules if row.status in ("scheduled", "paused")]
        if found.target.kind == "schedule" and not found.plans:
            states = [
                state
                for row in found.schedules
                if row.plan and row.aggregate_type
                for state in self._plans_of(row.aggregate_type, row.aggregate_id, {row.plan})
            ]
            found = replace(found, plans=states)
        return replace(
            found,
            workers=len(alive),
            runners=alive,
            heads=self._heads(found.deliveries),
            destination_states=DestinationState.objects.using(self._using).in_bulk(list(destinations)),
            receivers=receivers,
            guarded=frozenset(each.name for each in plans() if type(each).still_valid is not Plan.still_valid),
            jumps=[jump for row in found.schedules for jump in self._jumps(row)],
            following={row.key: self._following(row) for row in rows} if found.target.kind == "schedule" else {},
            more=tuple(self._more),
        )

    def _following(self, row: Schedule) -> list[Occurrence]:
        if row.due_at is None or row.remaining == 1:
            return []
        later = self._occurrences(row, row.due_at + timedelta.resolution, row.due_at + self._span)
        return [one for one in later if one.key != row.occurrence][:3]

    def _heads(self, deliveries: Sequence[Delivery]) -> dict[int, Head]:
        """In a few queries, however many deliveries there are."""
        waiting = [row.id for row in deliveries if row.stream is not None and row.status in ("pending", "waiting")]
        if not waiting:
            return {}
        rows, attempts = Delivery.objects.using(self._using), Attempt.objects.using(self._using)
        same = rows.filter(subscriber=OuterRef("subscriber"), stream=OuterRef("stream")).order_by("id")
        first_of = rows.filter(id__in=waiting).annotate(head=Subquery(same.values("id")[:1])).values_list("id", "head")
        behind = {id: head for id, head in first_of if head not in (id, None)}
        firsts = {row.id: row for row in rows.with_state().filter(id__in=set(behind.values()))}
        event_ids = {row.event_id for row in firsts.values()}
        events = Event.objects.using(self._using).in_bulk(list(event_ids))
        failed = attempts.filter(event_id__in=event_ids, delivery_id__in=firsts, outcome__in=_FAILED)
        failures = {one.delivery_id: one for one in failed.order_by("delivery_id", "-id").distinct("delivery_id")}
        return {
            id: Head(first, events.get(first.event_id), failures.get(head))
            for id, head in behind.items()
            if (first := firsts.get(head)) is not None
        }
