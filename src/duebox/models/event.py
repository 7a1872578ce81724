"""Events and the attempts to deliver them. Both are only ever inserted."""

from __future__ import annotations

from datetime import datetime
from functools import reduce
from operator import or_
from typing import Any

from django.db import models
from django.db.models import Case, Exists, OuterRef, Q, Value, When
from django.db.models.functions import Now

from duebox.events.fact import expiry_in
from duebox.events.identities import aggregate_of, uuid7

STATES = ("processing", "completed", "failed")
"""The states of `with_state`."""


class EventQuerySet(models.QuerySet["Event"]):
    """Queries on events by the state of their deliveries."""

    def with_state(self) -> EventQuerySet:
        """Adds `state`, a word for people: failed if a delivery is dead or parked, processing if one is still open,
        otherwise completed."""
        failed = self._deliveries(Q(status__in=["dead", "parked"]))
        return self.annotate(
            state=Case(
                When(Exists(failed), then=Value("failed")),
                When(Exists(self._deliveries(Q())), then=Value("processing")),
                default=Value("completed"),
                output_field=models.TextField(),
            )
        )

    def in_state(self, *states: str) -> EventQuerySet:
        """Events in one of the states of `with_state`."""
        some, failed = Exists(self._deliveries(Q())), Exists(self._deliveries(Q(status__in=["dead", "parked"])))
        which = {"failed": Q(failed), "processing": Q(some) & ~Q(failed), "completed": ~Q(some)}
        return self.filter(reduce(or_, (which[state] for state in states)))

    def pending(self) -> EventQuerySet:
        """Events with an open delivery: due, waiting, retrying or running."""
        return self.filter(Exists(self._deliveries(~Q(status__in=["dead", "parked"]))))

    def dead(self) -> EventQuerySet:
        """Events with a dead or parked delivery."""
        return self.filter(Exists(self._deliveries(Q(status="dead"))))

    def completed(self) -> EventQuerySet:
        """Events without open, dead or parked deliveries."""
        return self.filter(~Exists(self._deliveries(Q())))

    def about(self, entity: str | models.Model, id: object = None) -> EventQuerySet:
        """Events about one entity: a model instance, or a type and an id."""
        aggregate_type, aggregate_id = aggregate_of((entity, id) if isinstance(entity, str) else entity)
        return self.filter(aggregate_type=aggregate_type, aggregate_id=aggregate_id)

    def _deliveries(self, which: Q) -> models.QuerySet[Any]:
        from duebox.models.delivery import Delivery

        return Delivery.objects.filter(which, event_id=OuterRef("pk"))


class Event(models.Model):
    """An immutable fact in the past tense. Inserted with the business change, never updated."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    type = models.TextField()
    version = models.PositiveSmallIntegerField(db_default=1)
    occurred_at = models.DateTimeField()
    recorded_at = models.DateTimeField(db_default=Now())
    aggregate_type = models.TextField(db_default="")
    aggregate_id = models.TextField(db_default="")
    organization = models.TextField(db_default="")
    correlation_id = models.TextField(db_default="")
    causation_id = models.UUIDField(null=True)
    actor = models.JSONField(null=True)
    producer = models.TextField(db_default="")
    idempotency_key = models.TextField(null=True)  # noqa: DJ001 - NULL is "no key": it stays out of the unique index
    data = models.JSONField(default=dict)
    metadata = models.JSONField(default=dict)

    objects = EventQuerySet.as_manager()

    class Meta:
        db_table = "duebox_event"
        permissions = [("view_payload", "Can view the payloads of events")]
        # Pattern operators compare bytes: an insert does not pay for the collation of the database.
        indexes = [
            models.Index(
                fields=["aggregate_type", "aggregate_id"], opclasses=["text_pattern_ops", "text_pattern_ops"],
                condition=~Q(aggregate_type=""), name="duebox_event_about",
            ),
            models.Index(
                fields=["correlation_id"], opclasses=["text_pattern_ops"], name="duebox_event_correlation",
            ),
        ]  # fmt: skip
        constraints = [
            models.UniqueConstraint(
                fields=["type", "idempotency_key"],
                condition=Q(idempotency_key__isnull=False),
                name="duebox_event_once_per_key",
            ),
            models.CheckConstraint(condition=~Q(type=""), name="duebox_event_has_type"),
            models.CheckConstraint(
                condition=~Q(type__startswith="public.") | ~Q(organization=""),
                name="duebox_event_public_has_organization",
            ),
            models.CheckConstraint(
                condition=Q(aggregate_type="", aggregate_id="") | ~Q(aggregate_type="") & ~Q(aggregate_id=""),
                name="duebox_event_aggregate_is_whole",
            ),
        ]

    @property
    def expires_at(self) -> datetime | None:
        return expiry_in(self.metadata)

    def __str__(self) -> str:
        about = f" about {self.aggregate_type}:{self.aggregate_id}" if self.aggregate_type else ""
        return f"{self.type}{about} at {self.occurred_at:%Y-%m-%d %H:%M:%S %Z}".rstrip()


FINAL = ["delivered", "discarded", "expired"]
"""Outcomes that end a delivery."""


class Attempt(models.Model):
    """The append-only history: one line for every change of a delivery, and for every repeated emit with an idempotency
    key, which creates no delivery."""

    class Outcome(models.TextChoices):
        DELIVERED = "delivered", "Delivered"
        RETRIED = "retried", "Failed, to be retried"
        SNOOZED = "snoozed", "Snoozed by the handler"
        DISCARDED = "discarded", "Discarded by the handler or by a person"
        EXPIRED = "expired", "Not run, its event had expired"
        DEAD = "dead", "Failed for good"
        RESCUED = "rescued", "Worker lost, given back"
        REDRIVEN = "redriven", "Taken from the dead letters"
        PARKED = "parked", "Set aside by a person"
        REPLAYED = "replayed", "Sent again, or to a new subscriber"
        DEDUPLICATED = "deduplicated", "Emitted again with its idempotency key; nothing was stored"

    id = models.BigAutoField(primary_key=True)
    event_id = models.UUIDField()
    delivery_id = models.BigIntegerField()
    subscriber = models.TextField()
    number = models.PositiveSmallIntegerField()
    outcome = models.TextField(choices=Outcome)
    due_at = models.DateTimeField()
    started_at = models.DateTimeField(null=True)
    settled_at = models.DateTimeField(db_default=Now())
    took_ms = models.FloatField(null=True)
    lease = models.BigIntegerField(null=True)
    note = models.TextField(db_default="")
    status = models.PositiveSmallIntegerField(null=True)

    class Meta:
        db_table = "duebox_attempt"
        indexes = [
            models.Index(fields=["event_id"], name="duebox_attempt_of_event"),
            # The history of one endpoint; the name of a handler has no slash.
            models.Index(
                fields=["subscriber", "id"], condition=Q(subscriber__contains="/"), name="duebox_attempt_of_part"
            ),
            # Lines that are removed before their event is. Most lines are "delivered" and are not in it.
            models.Index(fields=["id"], condition=~Q(outcome__in=FINAL), name="duebox_attempt_not_final"),
        ]
        constraints = [
            models.CheckConstraint(
                condition=Q(
                    outcome__in=[
                        "delivered",
                        "retried",
                        "snoozed",
                        "discarded",
                        "expired",
                        "dead",
                        "rescued",
                        "redriven",
                        "parked",
                        "replayed",
                        "deduplicated",
                    ]
                ),
                name="duebox_attempt_known_outcome",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.event_id} to {self.subscriber}, attempt {self.number}: {self.outcome}"
