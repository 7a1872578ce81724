from __future__ import annotations

from datetime import datetime
from typing import Any

from django.db import models
from django.db.models import Exists, OuterRef, Q
from django.db.models.functions import Now

from duebox.fact import expiry_in
from duebox.identities import aggregate_of
from duebox.ids import uuid7


class EventQuerySet(models.QuerySet["Event"]):
    """Questions a person asks about events, answered from their deliveries."""

    def pending(self) -> EventQuerySet:
        """Some reaction is still to come: due, waiting, retrying or running."""
        return self.filter(Exists(self._deliveries(~Q(status__in=["dead", "parked"]))))

    def dead(self) -> EventQuerySet:
        """Some reaction gave up."""
        return self.filter(Exists(self._deliveries(Q(status="dead"))))

    def completed(self) -> EventQuerySet:
        """Every reaction has happened."""
        return self.filter(~Exists(self._deliveries(Q())))

    def about(self, entity: str | models.Model, id: object = None) -> EventQuerySet:
        """Those about one entity: a model instance, or a type and an id."""
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
