from __future__ import annotations

from django.db import models


class DeadMail(models.Model):
    """When the administrators were last told of deaths of one cause and one subscriber, so that a storm is one mail."""

    pk = models.CompositePrimaryKey("fingerprint", "subscriber")
    fingerprint = models.TextField()
    subscriber = models.TextField()
    mailed_at = models.DateTimeField()

    class Meta:
        db_table = "duebox_dead_mail"

    def __str__(self) -> str:
        return f"{self.fingerprint} of {self.subscriber} at {self.mailed_at:%Y-%m-%d %H:%M:%S}"
