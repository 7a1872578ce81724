from __future__ import annotations

from django.db import models
from django.db.models import Case, F, OuterRef, Q, Subquery, Value, When
from django.db.models.fields.json import KT
from django.db.models.functions import Coalesce, Concat, Now

from duebox.identities import aggregate_of
from duebox.models.delivery import Delivery
from duebox.models.event import Event

# Not `IN`: each of them has an index of its own.
_FAILED = Q(status="dead") | Q(status="parked")
_OPEN = Q(status="pending") | Q(status="waiting")


class ScheduleQuerySet(models.QuerySet["Schedule"]):
    """Questions a person asks about what is to come, and about what became of what has fired."""

    def with_state(self) -> ScheduleQuerySet:
        """Adds `state`, the word a person would use: scheduled, paused, processing, completed, failed or cancelled;
        and `last_state`, what became of the occurrence that fired last: processing, completed or failed, or nothing
        where none has fired. Both are told by the deliveries of the event that it fired."""
        fired = Event.objects.filter(
            type=OuterRef(OuterRef("type")),
            idempotency_key=Concat(
                OuterRef(OuterRef("key")), Value("/", models.TextField()), OuterRef(OuterRef("fired"))
            ),
        )
        deliveries = Delivery.objects.filter(event_id=Subquery(fired.values("id")[:1]))
        words = Case(When(_FAILED, then=Value("failed")), default=Value("processing"))
        # In the order of the alphabet: one that failed tells more than one that is still being processed.
        worst = Subquery(deliveries.annotate(word=words).order_by("word").values("word")[:1])
        last_state = Case(
            When(fired="", then=Value("")),
            default=Coalesce(worst, Value("completed")),
            output_field=models.TextField(),
        )
        ended = Case(When(Q(status="completed") & ~Q(fired=""), then=F("last_state")), default=F("status"))
        return self.annotate(last_state=last_state).annotate(state=ended)

    def scheduled(self) -> ScheduleQuerySet:
        """Those that will fire."""
        return self.filter(status="scheduled")

    def paused(self) -> ScheduleQuerySet:
        return self.filter(status="paused")

    def cancelled(self) -> ScheduleQuerySet:
        return self.filter(status="cancelled")

    def processing(self) -> ScheduleQuerySet:
        """Those of which what fired last is still being handled, or tried again; they may go on firing."""
        return self.with_state().filter(self._fired_with(_OPEN), Q(("last_state", "processing")))

    def failed(self) -> ScheduleQuerySet:
        """Those whose rule cannot be followed any more, or of which what fired last has failed for good, also if they
        go on firing."""
        rules = self.model._default_manager.using(self.db).filter(status="failed").values("pk")
        fired = self.model._default_manager.using(self.db).filter(self._fired_with(_FAILED)).values("pk")
        return self.with_state().filter(
            Q(status="failed") | Q(last_state="failed"), pk__in=rules.union(fired, all=True)
        )

    def completed(self) -> ScheduleQuerySet:
        """Those that have nothing left to fire, and whose last event everybody has handled."""
        return self.with_state().filter(Q(("state", "completed")), status="completed")

    def _fired_with(self, which: Q) -> Q:
        """Those that fired an event of which there is such a delivery. Found from the deliveries, which are few."""
        deliveries = Delivery.objects.using(self.db).filter(which).values("event_id")
        events = Event.objects.using(self.db).filter(id__in=deliveries, metadata__has_key="schedule")
        return Q(key__in=events.values(schedule_key=KT("metadata__schedule__key")))

    def live(self) -> ScheduleQuerySet:
        """Those that will fire, or would if they were not paused."""
        return self.filter(status__in=["scheduled", "paused"])

    def of_project(self) -> ScheduleQuerySet:
        """Without what Duebox schedules for itself: its upkeep, and the runs of sweeps."""
        return self.exclude(type__startswith="duebox.")

    def about(self, entity: str | models.Model, id: object = None) -> ScheduleQuerySet:
        """Those of one entity: a model instance, or a type and an id. A type alone means all its entities."""
        if isinstance(entity, str) and id is None:
            return self.filter(aggregate_type=entity)
        aggregate_type, aggregate_id = aggregate_of((entity, id) if isinstance(entity, str) else entity)
        return self.filter(aggregate_type=aggregate_type, aggregate_id=aggregate_id)


class Schedule(models.Model):
    """An intention: at this local time in this zone, by this rule, emit that event. One row however often it repeats.

    `intent` is the truth; `due_at` is derived from it, by the release of the zone database named in `tz_release`.
    """

    class Status(models.TextChoices):
        SCHEDULED = "scheduled", "Scheduled"
        PAUSED = "paused", "Paused"
        COMPLETED = "completed", "Completed: nothing is left to fire"
        CANCELLED = "cancelled", "Cancelled"
        FAILED = "failed", "Failed: its rule cannot be followed any more"

    class OptOut(models.TextChoices):
        """Whether somebody cancelled it with `duebox.cancel`. Its plan leaves it alone then, until `duebox.restore`."""

        NONE = "", "Nobody cancelled it"
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
        indexes = [
            models.Index(fields=["due_at", "id"], condition=Q(status="scheduled"), name="duebox_schedule_fire_due"),
            models.Index(
                fields=["aggregate_type", "aggregate_id"],
                condition=~Q(aggregate_type=""),
                name="duebox_schedule_about",
            ),
            models.Index(fields=["id"], condition=Q(status="failed"), name="duebox_schedule_list_failed"),
        ]
        constraints = [
            # Not unique=True: Django would add a second index, for LIKE, that nobody needs.
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
