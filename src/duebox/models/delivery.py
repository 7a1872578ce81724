"""Deliveries, which exist while there is work to do; worker leases; runs of tasks."""

from __future__ import annotations

from functools import reduce
from operator import or_
from typing import Any

from django.db import models
from django.db.models import Case, F, Q, Value, When
from django.db.models.functions import Now

from duebox import clock
from duebox.events.address import is_outside
from duebox.events.subscribers import by_name

STATES = ("due", "retrying", "running", "waiting", "scheduled", "dead", "parked", "orphaned")
"""The states by which deliveries can be filtered. Orphaned ones have another state as well."""


class DeliveryQuerySet(models.QuerySet["Delivery"]):
    def with_state(self) -> DeliveryQuerySet:
        """Adds `state`, a word for people: due, running, retrying, scheduled, waiting, dead, parked."""
        later = Q(due_at__gt=clock.override() or Now())
        return self.annotate(
            state=Case(
                When(~Q(status="pending"), then=F("status")),
                When(lease__isnull=False, then=Value("running")),
                When(later & Q(attempt__gt=0), then=Value("retrying")),
                When(later, then=Value("scheduled")),
                default=Value("due"),
                output_field=models.TextField(),
            )
        )

    def in_state(self, *states: str) -> DeliveryQuerySet:
        """Deliveries in one of the states of `with_state`, or `orphaned`."""
        return self.filter(reduce(or_, map(_which, states)))

    def orphaned(self) -> DeliveryQuerySet:
        """Deliveries for a handler or a destination that this code does not have, so that no worker claims them."""
        return self.in_state("orphaned")

    def dead(self) -> DeliveryQuerySet:
        return self.filter(status="dead")

    def parked(self) -> DeliveryQuerySet:
        """Deliveries that a person has parked, with a note in the history."""
        return self.filter(status="parked")

    def blocked(self) -> DeliveryQuerySet:
        """Ordered deliveries that wait for an earlier one of their stream."""
        return self.filter(status="waiting")


def _which(state: str) -> Q:
    if state == "orphaned":
        return _of_nobody() & Q(status__in=["pending", "waiting"], lease__isnull=True)
    if state == "running":
        return Q(status="pending", lease__isnull=False)
    if state not in ("due", "retrying", "scheduled"):
        return Q(status=state)
    free, now = Q(status="pending", lease__isnull=True), clock.override() or Now()
    if state == "due":
        return free & Q(due_at__lte=now)
    return free & Q(due_at__gt=now) & (Q(attempt__gt=0) if state == "retrying" else Q(attempt=0))


def _of_nobody() -> Q:
    names = list(by_name())
    parts = [Q(subscriber__startswith=f"{name}/") for name in names if is_outside(name)]
    return ~reduce(or_, parts, Q(subscriber__in=names))


class Delivery(models.Model):
    """Work to do: one event for one subscriber. The row is deleted once it is delivered; its history is in `Attempt`.

    Claiming writes `lease` alone, which no index and no index condition mentions, so that every claim is a
    heap-only update. No foreign keys: they would lock the event on every insert.
    """

    class Status(models.TextChoices):
        PENDING = "pending", "Pending"
        WAITING = "waiting", "Waiting behind an earlier event"
        DEAD = "dead", "Dead letter"
        PARKED = "parked", "Dead letter, set aside"

    id = models.BigAutoField(primary_key=True)
    event_id = models.UUIDField()
    subscriber = models.TextField()
    stream = models.TextField(null=True)  # noqa: DJ001 - NULL is "no order asked": it stays out of the stream index
    status = models.TextField(choices=Status, db_default=Status.PENDING)
    due_at = models.DateTimeField(db_default=Now())
    lease = models.BigIntegerField(null=True)
    attempt = models.PositiveSmallIntegerField(db_default=0)
    rescues = models.PositiveSmallIntegerField(db_default=0)
    died_at = models.DateTimeField(null=True)
    fingerprint = models.TextField(null=True)  # noqa: DJ001 - NULL until it dies: a row that lives stays narrow

    objects = DeliveryQuerySet.as_manager()

    class Meta:
        db_table = "duebox_delivery"
        verbose_name_plural = "deliveries"
        permissions = [
            ("retry_delivery", "Can retry and park deliveries"),
            ("discard_delivery", "Can discard deliveries"),
        ]
        indexes = [
            models.Index(
                fields=["due_at", "id"],
                condition=Q(status="pending") & ~Q(subscriber__startswith="to:"),
                name="duebox_delivery_claim_due",
            ),
            models.Index(
                fields=["subscriber", "due_at", "id"],
                condition=Q(status="pending", subscriber__startswith="to:"),
                name="duebox_delivery_claim_outside",
            ),
            models.Index(
                fields=["subscriber", "stream", "id"],
                condition=Q(stream__isnull=False),
                name="duebox_delivery_stream_head",
            ),
            models.Index(
                fields=["subscriber", "stream", "id"], condition=Q(status="waiting"), name="duebox_delivery_waiting"
            ),
            models.Index(fields=["id"], condition=Q(status="dead"), name="duebox_delivery_list_dead"),
            models.Index(fields=["id"], condition=Q(status="parked"), name="duebox_delivery_list_parked"),
            models.Index(fields=["id"], condition=Q(status__in=["dead", "parked"]), name="duebox_delivery_list_failed"),
            models.Index(fields=["event_id"], name="duebox_delivery_of_event"),
        ]
        constraints = [
            models.CheckConstraint(
                condition=Q(status__in=["pending", "waiting", "dead", "parked"]), name="duebox_delivery_known_status"
            ),
            models.CheckConstraint(
                condition=Q(lease__isnull=True) | Q(status="pending"),
                name="duebox_delivery_leased_is_pending",
            ),
            models.CheckConstraint(
                condition=~Q(status="waiting") | Q(stream__isnull=False),
                name="duebox_delivery_waiting_has_stream",
            ),
            models.CheckConstraint(condition=~Q(subscriber=""), name="duebox_delivery_has_subscriber"),
        ]

    def __str__(self) -> str:
        state = getattr(self, "state", None) or ("running" if self.lease else self.status)
        return f"{self.event_id} to {self.subscriber}: {state}"


class DeadLetterManager(models.Manager[Any]):
    def get_queryset(self) -> DeliveryQuerySet:
        return DeliveryQuerySet(self.model, using=self._db).filter(Q(status="dead") | Q(status="parked"))


class DeadLetter(Delivery):
    """A delivery that failed for good, or that a person parked: the admin lists them as dead letters."""

    objects = DeadLetterManager()  # type: ignore[misc, assignment]

    class Meta:
        proxy = True
        verbose_name = "dead letter"


class Worker(models.Model):
    """A lease: one row per worker process and start, kept alive by its heartbeat on the database's clock.

    The id is the fencing token: it is never used twice, every claim carries it, and a worker that lost its lease
    must take a new one before it claims again.
    """

    id = models.BigAutoField(primary_key=True)
    name = models.TextField()
    mode = models.TextField(db_default="poll")
    listening = models.BooleanField(db_default=False)
    started_at = models.DateTimeField(db_default=Now())
    beat_at = models.DateTimeField(db_default=Now())
    expires_at = models.DateTimeField()
    suspect = models.BigIntegerField(null=True)

    class Meta:
        db_table = "duebox_worker"
        constraints = [
            models.CheckConstraint(condition=Q(mode__in=["listen", "poll"]), name="duebox_worker_known_mode"),
        ]

    def __str__(self) -> str:
        return f"{self.name} ({self.mode}), alive until {self.expires_at:%H:%M:%S}"


class TaskRun(models.Model):
    """The status of a task of django.tasks. Its event has the arguments; the row is created at its first run."""

    class Status(models.TextChoices):
        READY = "READY", "Ready"
        RUNNING = "RUNNING", "Running"
        FAILED = "FAILED", "Failed"
        SUCCESSFUL = "SUCCESSFUL", "Successful"

    event_id = models.UUIDField(primary_key=True)
    status = models.TextField(choices=Status)
    started_at = models.DateTimeField()
    last_attempted_at = models.DateTimeField()
    finished_at = models.DateTimeField(null=True)
    return_value = models.JSONField(null=True)
    errors = models.JSONField(default=list)
    worker_ids = models.JSONField(default=list)

    class Meta:
        db_table = "duebox_task"
        constraints = [
            models.CheckConstraint(
                condition=models.Q(status__in=["READY", "RUNNING", "FAILED", "SUCCESSFUL"]),
                name="duebox_task_known_status",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.event_id}: {self.status}"
