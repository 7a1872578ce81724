"""Schedules, the log of deviations from the plan, and row changes recorded by triggers."""

from __future__ import annotations

from functools import reduce
from operator import or_

from django.db import models
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import Case, F, OuterRef, Q, Subquery, Value, When
from django.db.models.fields.json import KT
from django.db.models.functions import Coalesce, Concat, Now

from duebox.events.identities import aggregate_of
from duebox.models.delivery import Delivery
from duebox.models.event import Event

# Not `IN`: each of them has an index of its own.
_FAILED = Q(status="dead") | Q(status="parked")
_OPEN = Q(status="pending") | Q(status="waiting")


STATES = ("scheduled", "paused", "processing", "completed", "failed", "cancelled")
"""The states of `with_state`."""


class ScheduleQuerySet(models.QuerySet["Schedule"]):
    """Queries on schedules by their own state and by the state of the last occurrence that fired."""

    def with_state(self) -> ScheduleQuerySet:
        """Adds `state`, a word for people: scheduled, paused, processing, completed, failed or cancelled; and
        `last_state`, the state of the occurrence that fired last: processing, completed or failed, or empty if none has
        fired. Both depend on the deliveries of the event that it fired."""
        fired = Event.objects.filter(
            type=OuterRef(OuterRef("type")),
            idempotency_key=Concat(
                OuterRef(OuterRef("key")), Value("/", models.TextField()), OuterRef(OuterRef("fired"))
            ),
        )
        deliveries = Delivery.objects.filter(event_id=Subquery(fired.values("id")[:1]))
        words = Case(When(_FAILED, then=Value("failed")), default=Value("processing"))
        # In alphabetical order: "failed" is more important than "processing".
        worst = Subquery(deliveries.annotate(word=words).order_by("word").values("word")[:1])
        last_state = Case(
            When(fired="", then=Value("")),
            default=Coalesce(worst, Value("completed")),
            output_field=models.TextField(),
        )
        ended = Case(When(Q(status="completed") & ~Q(fired=""), then=F("last_state")), default=F("status"))
        return self.annotate(last_state=last_state).annotate(state=ended)

    def in_state(self, *states: str) -> ScheduleQuerySet:
        """Schedules in one of the states of `with_state`."""
        ended = Q(status="completed")
        # Rows that can be in the state at all: the state itself is computed for these only.
        narrow = {
            "processing": ended & self._fired_with(_OPEN),
            "failed": Q(status="failed") | ended & self._fired_with(_FAILED),
        }
        candidates = reduce(or_, (narrow.get(state, Q(status=state)) for state in states))
        return self.with_state().filter(candidates, Q(("state__in", states)))

    def scheduled(self) -> ScheduleQuerySet:
        """Schedules that will fire."""
        return self.filter(status="scheduled")

    def paused(self) -> ScheduleQuerySet:
        return self.filter(status="paused")

    def cancelled(self) -> ScheduleQuerySet:
        return self.filter(status="cancelled")

    def processing(self) -> ScheduleQuerySet:
        """Schedules whose last event is still being handled or retried; they may continue to fire."""
        return self.with_state().filter(self._fired_with(_OPEN), Q(("last_state", "processing")))

    def failed(self) -> ScheduleQuerySet:
        """Schedules whose rule cannot be followed any more, or whose last event has failed for good, even if they
        continue to fire."""
        rules = self.model._default_manager.using(self.db).filter(status="failed").values("pk")
        fired = self.model._default_manager.using(self.db).filter(self._fired_with(_FAILED)).values("pk")
        return self.with_state().filter(
            Q(status="failed") | Q(last_state="failed"), pk__in=rules.union(fired, all=True)
        )

    def completed(self) -> ScheduleQuerySet:
        """Schedules with nothing left to fire whose last event was handled by all subscribers."""
        return self.with_state().filter(Q(("state", "completed")), status="completed")

    def _fired_with(self, which: Q) -> Q:
        """Schedules that fired an event with such a delivery. Found from the deliveries, which are few."""
        deliveries = Delivery.objects.using(self.db).filter(which).values("event_id")
        events = Event.objects.using(self.db).filter(id__in=deliveries, metadata__has_key="schedule")
        return Q(key__in=events.values(schedule_key=KT("metadata__schedule__key")))

    def live(self) -> ScheduleQuerySet:
        """Schedules that will fire, or would if they were not paused."""
        return self.filter(status__in=["scheduled", "paused"])

    def of_project(self) -> ScheduleQuerySet:
        """Without the schedules of Duebox itself: maintenance, and the runs of sweeps."""
        return self.exclude(type__startswith="duebox.")

    def about(self, entity: str | models.Model, id: object = None) -> ScheduleQuerySet:
        """Schedules of one entity: a model instance, or a type and an id. A type alone means all its entities."""
        if isinstance(entity, str) and id is None:
            return self.filter(aggregate_type=entity)
        aggregate_type, aggregate_id = aggregate_of((entity, id) if isinstance(entity, str) else entity)
        return self.filter(aggregate_type=aggregate_type, aggregate_id=aggregate_id)


class Schedule(models.Model):
    """An event to emit at a local time in a zone, once or by a rule. One row, however often it repeats.

    `intent` is authoritative; `due_at` is derived from it, with the release of the zone database in `tz_release`.
    """

    class Status(models.TextChoices):
        SCHEDULED = "scheduled", "Scheduled"
        PAUSED = "paused", "Paused"
        COMPLETED = "completed", "Completed: nothing is left to fire"
        CANCELLED = "cancelled", "Cancelled"
        FAILED = "failed", "Failed: its rule cannot be followed any more"

    class OptOut(models.TextChoices):
        """Whether it was cancelled with `duebox.cancel`. Its plan does not change it then, until `duebox.restore`."""

        NONE = "", "Not cancelled"
        KEY = "key", "Cancelled by its key"
        ENTITY = "entity", "Cancelled with everything about its entity"

    id = models.BigAutoField(primary_key=True)
    key = models.TextField()
    plan = models.TextField(db_default="")
    status = models.TextField(choices=Status, db_default=Status.SCHEDULED)
    opt_out = models.TextField(choices=OptOut, db_default=OptOut.NONE, blank=True)
    due_at = models.DateTimeField(null=True)
    occurrence = models.TextField(db_default="")
    local_time = models.TextField(db_default="")
    marks = models.TextField(db_default="")
    fired = models.TextField(db_default="")
    fired_at = models.DateTimeField(null=True)
    remaining = models.PositiveIntegerField(null=True)
    revision = models.PositiveIntegerField(db_default=1)
    zone = models.TextField()
    zone_rules = models.TextField(db_default="")
    tz_release = models.TextField(db_default="")
    intent = models.JSONField()
    type = models.TextField()
    version = models.PositiveSmallIntegerField(db_default=1)
    aggregate_type = models.TextField(db_default="")
    aggregate_id = models.TextField(db_default="")
    organization = models.TextField(db_default="")
    correlation_id = models.TextField(db_default="")
    actor = models.JSONField(null=True)
    data = models.JSONField(default=dict)
    metadata = models.JSONField(default=dict)
    created_at = models.DateTimeField(db_default=Now())
    updated_at = models.DateTimeField(db_default=Now())

    objects = ScheduleQuerySet.as_manager()

    class Meta:
        db_table = "duebox_schedule"
        permissions = [("cancel_schedule", "Can cancel, pause and resume schedules")]
        indexes = [
            models.Index(fields=["due_at", "id"], condition=Q(status="scheduled"), name="duebox_schedule_fire_due"),
            models.Index(
                fields=["aggregate_type", "aggregate_id"],
                condition=~Q(aggregate_type=""),
                name="duebox_schedule_about",
            ),
            models.Index(fields=["id"], condition=Q(status="failed"), name="duebox_schedule_list_failed"),
            models.Index(
                fields=["updated_at", "id"],
                condition=Q(status__in=["completed", "cancelled"], opt_out=""),
                name="duebox_schedule_ended",
            ),
        ]
        constraints = [
            # Not unique=True: Django would add a second, useless index for LIKE.
            models.UniqueConstraint(fields=["key"], name="duebox_schedule_one_per_key"),
            models.CheckConstraint(
                condition=Q(status__in=["scheduled", "paused", "completed", "cancelled", "failed"]),
                name="duebox_schedule_known_status",
            ),
            models.CheckConstraint(
                condition=Q(opt_out="")
                | Q(opt_out__in=["key", "entity"]) & Q(status__in=["completed", "cancelled", "failed"]),
                name="duebox_schedule_live_without_opt_out",
            ),
            models.CheckConstraint(
                condition=Q(status="scheduled", due_at__isnull=False) | ~Q(status="scheduled") & Q(due_at__isnull=True),
                name="duebox_schedule_due_if_scheduled",
            ),
            models.CheckConstraint(
                condition=Q(aggregate_type="", aggregate_id="") | ~Q(aggregate_type="") & ~Q(aggregate_id=""),
                name="duebox_schedule_aggregate_is_whole",
            ),
            models.CheckConstraint(condition=~Q(key="") & ~Q(type="") & ~Q(zone=""), name="duebox_schedule_has_names"),
        ]

    def __str__(self) -> str:
        if self.status != "scheduled":
            return f"{self.key}: {getattr(self, 'state', self.status)}"
        marks = f" ({self.marks})" if self.marks else ""
        last = getattr(self, "last_state", "")
        note = f", the last one is {last}" if last else ""
        return f"{self.key}: {self.type} at {self.local_time} {self.zone}{marks}{note}"

    def last_event(self) -> Event | None:
        """The event of the occurrence that fired last."""
        if not self.fired:
            return None
        events = Event.objects.using(self._state.db)
        return events.filter(type=self.type, idempotency_key=f"{self.key}/{self.fired}").first()


class ScheduleLog(models.Model):
    """The append-only schedule log: occurrences that were moved, missed, skipped or cancelled, and rows that a sweep
    found. An occurrence that fires as planned has no line here: its event has the due time.
    """

    class What(models.TextChoices):
        MOVED = "moved", "Moved to another instant"
        MISSED = "missed", "Missed: it will not fire any more"
        SKIPPED = "skipped", "Passed over: no longer valid when it came due"
        CANCELLED = "cancelled", "Cancelled"
        PAUSED = "paused", "Paused"
        RESUMED = "resumed", "Resumed"
        RESTORED = "restored", "Asked for again after it was cancelled"
        FAILED = "failed", "Could not be followed"
        SWEPT = "swept", "Found and stamped by a sweep"

    id = models.BigAutoField(primary_key=True)
    at = models.DateTimeField(db_default=Now())
    what = models.TextField(choices=What)
    source = models.TextField()
    occurrence = models.TextField(db_default="")
    aggregate_type = models.TextField(db_default="")
    aggregate_id = models.TextField(db_default="")
    due_before = models.DateTimeField(null=True)
    due_after = models.DateTimeField(null=True)
    run = models.TextField(db_default="")
    event_id = models.UUIDField(null=True)
    note = models.TextField(db_default="")
    occurrences = models.PositiveIntegerField(db_default=1)
    last_occurrence = models.TextField(db_default="")

    class Meta:
        db_table = "duebox_schedule_log"
        indexes = [
            models.Index(fields=["source", "id"], name="duebox_schedule_log_of_source"),
            models.Index(
                fields=["aggregate_type", "aggregate_id"],
                condition=~Q(aggregate_type=""),
                name="duebox_schedule_log_about",
            ),
            models.Index(fields=["run"], condition=~Q(run=""), name="duebox_schedule_log_of_run"),
        ]
        constraints = [
            models.CheckConstraint(
                condition=Q(
                    what__in=[
                        "moved", "missed", "skipped", "cancelled", "paused", "resumed", "restored", "failed", "swept",
                    ]
                ),
                name="duebox_schedule_log_known_what",
            ),
        ]  # fmt: skip

    def __str__(self) -> str:
        occurrence = f"/{self.occurrence}" if self.occurrence else ""
        return f"{self.source}{occurrence}: {self.what}"


class TextArrayField(models.Field):  # type: ignore[type-arg]
    """A column of texts. Django's own ArrayField needs `django.contrib.postgres` in INSTALLED_APPS."""

    def db_type(self, connection: BaseDatabaseWrapper) -> str:
        return "text[]"


class RowChange(models.Model):
    """Rows followed by a plan that one statement changed, and whose schedules were not planned again yet.

    Written by triggers on the followed tables, in the transaction of the change; removed by the transaction that plans
    the row again. Most of the time this table is empty.
    """

    id = models.BigAutoField(primary_key=True)
    source = models.TextField()
    """The entity type of the followed model, such as `clinic.appointment`."""
    key = models.TextField()
    """The primary key as text, of a statement that changed one row; empty for all rows, after a TRUNCATE."""
    keys = TextArrayField(null=True)
    """The primary keys of a statement that changed several rows, at most 1,000; `key` is the first."""
    changed_at = models.DateTimeField(db_default=Now())

    class Meta:
        db_table = "duebox_row_change"
        indexes = [
            models.Index(fields=["source", "key"], name="duebox_row_change_of_row"),
            models.Index(fields=["source"], condition=Q(keys__isnull=False), name="duebox_row_change_of_rows"),
        ]

    def __str__(self) -> str:
        return f"{self.source}:{self.key or '*'}" if self.keys is None else f"{self.source}: {len(self.keys)} rows"
