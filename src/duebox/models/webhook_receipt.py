from __future__ import annotations

from django.db import models
from django.db.models.functions import Now


class WebhookReceipt(models.Model):
    """A webhook that was received and handled; a repeat of it finds this row. Written with what its view writes."""

    id = models.BigAutoField(primary_key=True)
    source = models.TextField()
    webhook_id = models.TextField()
    received_at = models.DateTimeField(db_default=Now())

    class Meta:
        db_table = "duebox_webhook_receipt"
        indexes = [models.Index(fields=["received_at"], name="duebox_webhook_receipt_by_age")]
        constraints = [models.UniqueConstraint(fields=["source", "webhook_id"], name="duebox_webhook_receipt_once")]

    def __str__(self) -> str:
        return f"{self.webhook_id} from {self.source}"
