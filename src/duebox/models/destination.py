"""Shared state of destinations, Celery tasks that were sent, dead letter mails, webhook endpoints and receipts."""

from __future__ import annotations

from urllib.parse import urlsplit

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from duebox.events.identities import uuid7


class DestinationState(models.Model):
    """The shared state of a destination or endpoint for all workers: paused, failing, rate limit. A row is created when
    needed; most destinations have none.
    """

    name = models.TextField(primary_key=True)
    paused_at = models.DateTimeField(null=True)
    paused_note = models.TextField(db_default="")
    open_until = models.DateTimeField(null=True)
    opened = models.PositiveIntegerField(db_default=0)
    failing_since = models.DateTimeField(null=True)
    failed_at = models.DateTimeField(null=True)
    error = models.TextField(db_default="")
    tokens = models.FloatField(null=True)
    refilled_at = models.DateTimeField(null=True)
    changed_at = models.DateTimeField(db_default=Now())

    class Meta:
        db_table = "duebox_destination_state"
        constraints = [
            models.CheckConstraint(
                condition=Q(tokens__isnull=True) | Q(refilled_at__isnull=False),
                name="duebox_destination_state_tokens_have_a_time",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.name}: {'paused' if self.paused_at else 'open' if self.open_until else 'closed'}"


class SentTask(models.Model):
    """A delivery whose event was sent to a task of another system, until that task reports its result."""

    pk = models.CompositePrimaryKey("subscriber", "event_id")
    subscriber = models.TextField()
    event_id = models.UUIDField()
    task_id = models.TextField()
    task = models.TextField()
    sent_at = models.DateTimeField()
    expires_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True)
    error = models.TextField(db_default="")
    permanent = models.BooleanField(db_default=False)
    failure_settled = models.BooleanField(db_default=False)

    class Meta:
        db_table = "duebox_sent_task"
        indexes = [models.Index(fields=["task_id"], name="duebox_sent_task_of_task")]

    def __str__(self) -> str:
        return f"{self.event_id} to {self.subscriber}, task {self.task_id}"


class DeadMail(models.Model):
    """When the last mail about dead letters of one cause and one subscriber was sent, to limit the number of mails."""

    pk = models.CompositePrimaryKey("fingerprint", "subscriber")
    fingerprint = models.TextField()
    subscriber = models.TextField()
    mailed_at = models.DateTimeField()

    class Meta:
        db_table = "duebox_dead_mail"

    def __str__(self) -> str:
        return f"{self.fingerprint} of {self.subscriber} at {self.mailed_at:%Y-%m-%d %H:%M:%S}"


class WebhookEndpointQuerySet(models.QuerySet["WebhookEndpoint"]):
    def enabled(self) -> WebhookEndpointQuerySet:
        return self.filter(disabled_at__isnull=True)

    def of(self, organization: object) -> WebhookEndpointQuerySet:
        return self.filter(organization=str(getattr(organization, "pk", organization)))


class WebhookEndpoint(models.Model):
    """A webhook endpoint of an organization. Created by `duebox.destinations.webhooks.endpoints`, which also encrypts:
    `secret`, `previous_secret` and `headers` cannot be read without the keys of the project.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    organization = models.TextField()
    url = models.TextField()
    types = models.JSONField(default=list)
    description = models.TextField(db_default="")
    secret = models.TextField()
    previous_secret = models.TextField(db_default="")
    previous_until = models.DateTimeField(null=True)
    headers = models.TextField(db_default="")
    rate = models.FloatField(null=True)
    created_at = models.DateTimeField(db_default=Now())
    enabled_at = models.DateTimeField(db_default=Now())
    disabled_at = models.DateTimeField(null=True)
    disabled_reason = models.TextField(db_default="")

    objects = WebhookEndpointQuerySet.as_manager()

    class Meta:
        db_table = "duebox_webhook_endpoint"
        indexes = [models.Index(fields=["organization"], name="duebox_webhook_endpoint_of_org")]
        constraints = [
            models.CheckConstraint(condition=~Q(organization=""), name="duebox_webhook_endpoint_has_organization"),
            models.CheckConstraint(
                condition=Q(rate__isnull=True) | Q(rate__gt=0), name="duebox_webhook_endpoint_rate_above_zero"
            ),
            models.CheckConstraint(
                condition=Q(previous_secret="") | Q(previous_until__isnull=False),
                name="duebox_webhook_endpoint_previous_ends",
            ),
        ]

    @property
    def host(self) -> str:
        """The part of the URL that may be shown to anyone: its path may be secret."""
        return urlsplit(self.url).hostname or ""

    def __str__(self) -> str:
        return f"{self.host} of {self.organization}{', disabled' if self.disabled_at else ''}"


class WebhookReceipt(models.Model):
    """A webhook that was received and handled, to recognise duplicates. Written in the transaction of its view."""

    id = models.BigAutoField(primary_key=True)
    source = models.TextField()
    webhook_id = models.TextField()
    received_at = models.DateTimeField(db_default=Now())

    class Meta:
        db_table = "duebox_webhook_receipt"
        constraints = [models.UniqueConstraint(fields=["source", "webhook_id"], name="duebox_webhook_receipt_once")]

    def __str__(self) -> str:
        return f"{self.webhook_id} from {self.source}"
