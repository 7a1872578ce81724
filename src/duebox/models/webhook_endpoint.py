from __future__ import annotations

from urllib.parse import urlsplit

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from duebox.ids import uuid7


class WebhookEndpointQuerySet(models.QuerySet["WebhookEndpoint"]):
    def enabled(self) -> WebhookEndpointQuerySet:
        return self.filter(disabled_at__isnull=True)

    def of(self, organization: object) -> WebhookEndpointQuerySet:
        return self.filter(organization=str(getattr(organization, "pk", organization)))


class WebhookEndpoint(models.Model):
    """Where an organization wants its public events. Made by `duebox.destinations.webhooks.endpoints`, which also
    encrypts: `secret`, `previous_secret` and `headers` cannot be read without the keys of the project.
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
        """All of the URL that may be shown to anybody: its path may be a secret."""
        return urlsplit(self.url).hostname or ""

    def __str__(self) -> str:
        return f"{self.host} of {self.organization}{', disabled' if self.disabled_at else ''}"
