"""Counts per minute and per hour, computed from the history, so that charts and SLOs never read events."""

from __future__ import annotations

from django.db import models
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import Q


class IntegerArrayField(models.Field):  # type: ignore[type-arg]
    """A column of whole numbers. Django's own ArrayField needs `django.contrib.postgres` in INSTALLED_APPS."""

    def db_type(self, connection: BaseDatabaseWrapper) -> str:
        return "integer[]"


class Rollup(models.Model):
    """What happened in one minute, or in one hour, to one event type, subscriber or schedule.

    Written by one worker at a time from rows that are only ever inserted, so a minute can be counted again at any time.
    The row with an empty name is the sum over all names. Names are event types, handlers and destinations, of which
    there are few; endpoints of webhooks are summed by their destination.
    """

    class Kind(models.TextChoices):
        EVENT = "event", "Events by type"
        SUBSCRIBER = "subscriber", "Attempts by handler or destination"
        SCHEDULE = "schedule", "Occurrences that fired, by event type"
        SCHEDULE_LOG = "schedule_log", "Lines of the schedule log, by what happened"
        GAUGE = "gauge", "Numbers that were read once a minute"
        PROGRESS = "progress", "Until when minutes were counted"

    pk = models.CompositePrimaryKey("span", "kind", "name", "minute")
    span = models.PositiveSmallIntegerField()
    """Minutes that the row covers: 1 or 60. 0 for `progress`."""
    kind = models.TextField(choices=Kind)
    name = models.TextField()
    minute = models.DateTimeField()
    """The start of the period."""
    count = models.BigIntegerField(db_default=0)
    delivered = models.PositiveIntegerField(db_default=0)
    retried = models.PositiveIntegerField(db_default=0)
    dead = models.PositiveIntegerField(db_default=0)
    snoozed = models.PositiveIntegerField(db_default=0)
    discarded = models.PositiveIntegerField(db_default=0)
    expired = models.PositiveIntegerField(db_default=0)
    rescued = models.PositiveIntegerField(db_default=0)
    repeated = models.PositiveIntegerField(db_default=0)
    """Delivered or dead after more than one attempt."""
    lateness_ms = models.FloatField(db_default=0)
    lateness = IntegerArrayField(null=True)
    """The lateness histogram, with the bounds in `duebox.store.rollup.BOUNDS_MS`. Trailing zeros are left out."""
    wait_ms = models.FloatField(db_default=0)
    wait = IntegerArrayField(null=True)
    """The histogram of first attempts: from the emit to the start."""
    duration_ms = models.FloatField(db_default=0)
    duration = IntegerArrayField(null=True)

    class Meta:
        db_table = "duebox_rollup"
        indexes = [models.Index(fields=["span", "minute"], name="duebox_rollup_of_minute")]
        constraints = [
            models.CheckConstraint(condition=Q(span__in=[0, 1, 60]), name="duebox_rollup_known_span"),
            models.CheckConstraint(
                condition=Q(kind__in=["event", "subscriber", "schedule", "schedule_log", "gauge", "progress"]),
                name="duebox_rollup_known_kind",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.minute:%Y-%m-%d %H:%M} {self.kind} {self.name or 'all'}: {self.count}"
