from __future__ import annotations

from functools import reduce
from operator import or_

from django.db import models
from django.db.models import Case, F, Q, Value, When
from django.db.models.functions import Now

from duebox import clock
from duebox.subscribers import OUTSIDE, by_name

STATES = ("due", "retrying", "running", "waiting", "scheduled", "dead", "parked", "orphaned")
"""The words by which deliveries are asked for. Orphaned ones have another state besides."""


class DeliveryQuerySet(models.QuerySet["Delivery"]):
    def with_state(self) -> DeliveryQuerySet:
        """Adds `state`, the word a person would use: due, running, retrying, scheduled, waiting, dead, parked."""
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
        """Those of which `with_state` would say one of these words; or `orphaned`."""
        return self.filter(reduce(or_, map(_which, states)))

    def orphaned(self) -> DeliveryQuerySet:
        """For a handler or a destination that this code does not have; nobody takes them."""
        return self.in_state("orphaned")

    def dead(self) -> DeliveryQuerySet:
        return self.filter(status="dead")

    def parked(self) -> DeliveryQuerySet:
        """Dead letters that somebody has set aside, with a note in the history."""
        return self.filter(status="parked")

    def blocked(self) -> DeliveryQuerySet:
        """Ordered deliveries that stand behind an earlier one of their stream."""
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
    parts = [Q(subscriber__startswith=f"{name}/") for name in names if name.startswith(OUTSIDE)]
    return ~reduce(or_, parts, Q(subscriber__in=names))


class Delivery(models.Model):
    """Work to do: one event for one subscriber. The row is gone once it is delivered; `Attempt` remembers.

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
